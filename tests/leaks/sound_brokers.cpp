// SPDX-License-Identifier: MIT
//
// sound_brokers.cpp - memory of servers, brokers and stores that grows for a time, or swings, and is not lost.
#include "programs.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

// The log of changes for replicas is kept in blocks, 900 at most. A replica that stands still in ticks 24 to 29 holds
// on to those that it has not read.
static std::deque<char *> change_blocks;
static size_t n_change_blocks, read_by_replica;

OWN static void add_change_block()
{
    change_blocks.push_back(xmalloc(16 << 10));
    n_change_blocks++;
}

static void changes_for_replicas(int tick)
{
    for (unsigned n = 40 + next_random(16); n > 0; n--)
        add_change_block();
    if (tick < 24 || tick > 29)
        read_by_replica = n_change_blocks;
    for (; change_blocks.size() > 900 && n_change_blocks - change_blocks.size() < read_by_replica;
         change_blocks.pop_front())
        free(change_blocks.front());
}

// All pages are loaded in the first tick. While they are saved, six ticks of 17, a page that is written is copied
// before that. The copies are freed when all is saved.
static std::map<unsigned, char *> page_copies;

OWN static void load_data_page(char *&page)
{
    page = xmalloc(4096);
}

OWN static void copy_page(unsigned number, const char *page)
{
    char *copy = xmalloc(4096);
    memcpy(copy, page, 1000);
    page_copies[number] = copy;
}

static void copies_while_saving(int tick)
{
    static char *data_pages[2500];
    for (auto &page : data_pages) {
        if (!page)
            load_data_page(page);
    }
    for (int i = 0; i < 500; i++) {
        unsigned number = next_random(2500);
        if (tick % 17 >= 5 && tick % 17 <= 10 && !page_copies.count(number))
            copy_page(number, data_pages[number]);
        data_pages[number][7]++;
    }
    for (auto &copy : page_copies) {
        if (tick % 17 == 10)
            free(copy.second);
    }
    if (tick % 17 == 10)
        page_copies.clear();
}

// Scores of senders are halved every three ticks and forgotten when they are small. 600 senders come again and again;
// most others come once.
struct reputation {
    double score = 0;
    char words[1100];
};
static std::unordered_map<unsigned, reputation> reputations;

OWN static reputation &reputation_of(unsigned sender)
{
    return reputations[sender];
}

static void scores_decay(int tick)
{
    for (int i = 0; i < 600; i++)
        reputation_of(next_random(5) < 2 ? next_random(600) : 1000 + next_random(100000000)).score += 1;
    if (tick % 3)
        return;
    for (auto at = reputations.begin(); at != reputations.end();) {
        at->second.score /= 2;
        at = at->second.score < 0.2 ? reputations.erase(at) : std::next(at);
    }
}

// A filter of what was seen, for each of the last six periods of five ticks.
static std::deque<std::vector<char>> filters;

OWN static void begin_filter()
{
    filters.emplace_back(900000);
}

static void filters_of_periods(int tick)
{
    if (tick % 5 == 0)
        begin_filter();
    if (filters.size() > 6)
        filters.pop_front();
    for (int i = 0; i < 1000; i++)
        filters.back()[next_random(900000)] = 1;
}

// 400 connections are opened in the first ticks and stay. The buffer of each is doubled when a message needs it, up to
// 32 KB.
OWN static void double_buffer_of(std::pair<char *, size_t> &buffer)
{
    buffer.second *= 2;
    buffer.first = static_cast<char *>(realloc(buffer.first, buffer.second));
}

OWN static void open_long_connection(std::vector<std::pair<char *, size_t>> &buffers)
{
    buffers.emplace_back(xmalloc(4096), 4096);
}

static void buffers_adapt(int)
{
    static std::vector<std::pair<char *, size_t>> buffers;
    for (int i = 0; i < 40 && buffers.size() < 400; i++)
        open_long_connection(buffers);
    for (auto &buffer : buffers) {
        for (int i = 0; i < 4; i++) {
            size_t needed = std::min(32768U, 3000000 / (40 + next_random(3000)));
            while (buffer.second < needed)
                double_buffer_of(buffer);
        }
    }
}

// Threads are started and ended as the load goes. Each has a buffer.
struct pool_thread {
    bool is_ended;
    std::thread thread;
};
static std::mutex &pool_mutex = *new std::mutex; // these three outlive exit, for the threads that wait
static std::condition_variable &pool_changed = *new std::condition_variable;
static std::deque<std::unique_ptr<pool_thread>> &pool_threads = *new std::deque<std::unique_ptr<pool_thread>>;
static int n_ready;

OWN static char *thread_workspace()
{
    return xmalloc(300000);
}

static void serve_pool(pool_thread *self)
{
    char *workspace = thread_workspace();
    std::unique_lock<std::mutex> lock(pool_mutex);
    n_ready++;
    pool_changed.notify_all();
    pool_changed.wait(lock, [self] { return self->is_ended; });
    n_ready--;
    lock.unlock();
    free(workspace);
}

static void threads_by_load(int tick)
{
    size_t n_wanted = tick < 4    ? 4
                      : tick < 14 ? static_cast<size_t>(2 * tick - 2)
                      : tick < 19 ? 26
                      : tick < 25 ? 6
                      : tick < 31 ? 18
                                  : 8 + next_random(4);
    while (pool_threads.size() < n_wanted) {
        pool_threads.push_back(std::make_unique<pool_thread>());
        pool_threads.back()->thread = std::thread(serve_pool, pool_threads.back().get());
    }
    while (pool_threads.size() > n_wanted) {
        std::unique_lock<std::mutex> lock(pool_mutex);
        pool_threads.front()->is_ended = true;
        pool_changed.notify_all();
        lock.unlock();
        pool_threads.front()->thread.join();
        pool_threads.pop_front();
    }
    std::unique_lock<std::mutex> lock(pool_mutex);
    pool_changed.wait(lock, [n_wanted] { return n_ready == static_cast<int>(n_wanted); });
}

// Entries of a replicated log. A snapshot, every eleven ticks, replaces all but the last 400.
static std::deque<std::string> log_entries;

OWN static void append_entry()
{
    log_entries.emplace_back(200 + next_random(2800), 'l');
}

OWN static std::vector<char> write_snapshot()
{
    return std::vector<char>(1 << 20);
}

static void log_until_snapshot(int tick)
{
    static std::vector<char> snapshot;
    for (unsigned n = 140 + next_random(120); n > 0; n--)
        append_entry();
    if (tick % 11 < 10)
        return;
    write_snapshot().swap(snapshot);
    while (log_entries.size() > 400)
        log_entries.pop_front();
}

// The configuration is read anew three times, and is larger each time. Connections keep the one that they began with. A
// connection ends in a tick with a probability of one fourth.
struct configuration {
    std::vector<std::string> rules;
};
static std::shared_ptr<configuration> current_configuration;
static std::vector<std::shared_ptr<configuration>> used_configurations;

OWN static void read_rules(size_t n_rules)
{
    current_configuration = std::make_shared<configuration>();
    while (current_configuration->rules.size() < n_rules)
        current_configuration->rules.emplace_back(1500 + next_random(4000), 'r');
}

static void configuration_drains(int tick)
{
    if (tick == 0 || tick == 7 || tick == 19 || tick == 31)
        read_rules(500 + static_cast<size_t>(tick) * 8);
    used_configurations.resize(300);
    for (auto &used : used_configurations) {
        if (!used || !next_random(4))
            used = current_configuration;
    }
}

// A broker drops messages that it has seen in the last 14 ticks. It knows them by their ids, a set for each tick.
static std::deque<std::unordered_set<std::string>> seen_ids;

OWN static bool is_first(const std::string &id)
{
    for (const auto &ids : seen_ids) {
        if (ids.count(id))
            return false;
    }
    return seen_ids.back().insert(id).second;
}

static void ids_of_window(int tick)
{
    seen_ids.emplace_back();
    if (seen_ids.size() > 14)
        seen_ids.pop_front();
    double load = 1300 + 600 * sin(tick * 0.9) + next_random(300);
    for (int i = 0; i < static_cast<int>(load); i++)
        is_first(std::string(110 + next_random(120), 'i') + std::to_string(tick * 10000 + i));
}

// Eight clients read less than they are sent. When the unread blocks of one are more than its limit, its connection is
// cut and they are freed.
struct slow_client {
    std::deque<std::pair<char *, size_t>> unread;
    size_t n_bytes = 0;
};

OWN static void send_block(slow_client &client)
{
    size_t n_bytes = 2000 + next_random(5000);
    client.unread.emplace_back(xmalloc(n_bytes), n_bytes);
    client.n_bytes += n_bytes;
}

static void slow_clients_cut(int)
{
    static slow_client clients[8];
    for (unsigned number = 0; number < 8; number++) {
        slow_client &client = clients[number];
        for (int i = 0; i < 110; i++)
            send_block(client);
        unsigned n_read = 55 + number * 6 + next_random(12);
        bool is_cut = client.n_bytes > 1500000;
        for (; !client.unread.empty() && (is_cut || n_read > 0); n_read -= n_read > 0) {
            free(client.unread.front().first);
            client.n_bytes -= client.unread.front().second;
            client.unread.pop_front();
        }
    }
}

// Uploads come in 3 to 12 parts, about one a tick, and are freed when they are whole. One in six is given up by its
// client; eight ticks after its last part it is freed.
struct parts_of_upload {
    unsigned n_wanted, n_idle;
    bool is_given_up;
    std::vector<char *> parts;
};
static std::vector<parts_of_upload> uploads;

OWN static void receive_part(parts_of_upload &upload)
{
    upload.parts.push_back(xmalloc(40000 + next_random(50000)));
}

static void uploads_in_parts(int)
{
    for (unsigned n = 2 + next_random(4); n > 0; n--)
        uploads.push_back({3 + next_random(10), 0, !next_random(6), {}});
    for (size_t i = 0; i < uploads.size();) {
        parts_of_upload &upload = uploads[i];
        bool is_silent = upload.is_given_up && upload.parts.size() > 1;
        upload.n_idle = is_silent ? upload.n_idle + 1 : 0;
        for (unsigned n = is_silent ? 0 : 1 + next_random(2); n > 0; n--)
            receive_part(upload);
        if (upload.parts.size() < upload.n_wanted && upload.n_idle < 8) {
            i++;
            continue;
        }
        for (char *part : upload.parts)
            free(part);
        std::swap(upload, uploads.back());
        uploads.pop_back();
    }
}

const program sound_brokers[] = {
    {"changes_for_replicas", changes_for_replicas, 0},
    {"copies_while_saving", copies_while_saving, 0},
    {"scores_decay", scores_decay, 0},
    {"filters_of_periods", filters_of_periods, 0},
    {"buffers_adapt", buffers_adapt, 0},
    {"threads_by_load", threads_by_load, 0},
    {"log_until_snapshot", log_until_snapshot, 0},
    {"configuration_drains", configuration_drains, 0},
    {"ids_of_window", ids_of_window, 0},
    {"slow_clients_cut", slow_clients_cut, 0},
    {"uploads_in_parts", uploads_in_parts, 0},
    {nullptr, nullptr, 0},
};
