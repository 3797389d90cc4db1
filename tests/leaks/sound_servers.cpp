// SPDX-License-Identifier: MIT
//
// sound_servers.cpp - memory of servers that grows for a time, or goes up and down, and is not lost.
#include "programs.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

// Leases end ten ticks after they were given; 40 % are renewed then, with new options. Devices come as the day goes.
static std::vector<char *> leases[10];

OWN static void give_lease(std::vector<char *> &slot)
{
    slot.push_back(xmalloc(5000 + next_random(3000)));
}

OWN static void renew_lease(std::vector<char *> &slot, char *lease)
{
    slot.push_back(static_cast<char *>(realloc(lease, 5000 + next_random(3000))));
}

static void leases_on_a_wheel(int tick)
{
    std::vector<char *> &slot = leases[tick % 10], ending;
    ending.swap(slot);
    for (char *lease : ending) {
        if (next_random(10) < 4)
            renew_lease(slot, lease);
        else
            free(lease);
    }
    for (int i = static_cast<int>(60 + 45 * sin(tick * 2 * M_PI / 22)); i > 0; i--)
        give_lease(slot);
}

// More jobs come than the worker does, until there are 2200. From then on a job is refused while there are that many.
static std::deque<std::string *> bounded;

OWN static std::string *make_job()
{
    return new std::string(2500 + next_random(4000), 'j');
}

static void do_jobs()
{
    for (int i = 0; i < 400 && !bounded.empty(); i++) {
        delete bounded.front();
        bounded.pop_front();
    }
}

static void bounded_backlog(int)
{
    for (unsigned n = 350 + next_random(301); n > 0; n--) {
        std::string *job = make_job();
        if (bounded.size() < 2200)
            bounded.push_back(job);
        else
            delete job;
    }
    std::thread(do_jobs).join();
}

// A connection ends in a tick with a probability of one fifth. All clients reconnect at once in ticks 15 to 18.
static std::vector<char *> clients;

OWN static void accept_client()
{
    clients.push_back(xmalloc(14000));
}

static void reconnect_storm(int tick)
{
    for (size_t i = 0; i < clients.size();) {
        if (next_random(5)) {
            i++;
            continue;
        }
        free(clients[i]);
        clients[i] = clients.back();
        clients.pop_back();
    }
    for (unsigned n = tick >= 15 && tick <= 18 ? 400 : 60 + next_random(40); n > 0; n--)
        accept_client();
}

// An LRU cache of 700 pages. From tick 18 on another catalogue is asked for, whose pages are twice as large.
static std::list<std::pair<unsigned, std::string>> pages;
static std::unordered_map<unsigned, std::list<std::pair<unsigned, std::string>>::iterator> page_places;

OWN static void render_catalogue(unsigned key)
{
    size_t n_bytes = 4000 + next_random(4000);
    pages.emplace_front(key, std::string(key < 3000 ? n_bytes : 2 * n_bytes, 'c'));
    page_places[key] = pages.begin();
}

static void catalogue_changes(int tick)
{
    for (int i = 0; i < 170; i++) {
        unsigned key = next_random(3000) * next_random(3000) / 3000 + (tick < 18 ? 0 : 3000);
        auto found = page_places.find(key);
        if (found != page_places.end()) {
            pages.splice(pages.begin(), pages, found->second);
            continue;
        }
        render_catalogue(key);
        if (pages.size() > 700) {
            page_places.erase(pages.back().first);
            pages.pop_back();
        }
    }
}

// Each of ten subsystems records into a ring of 16 segments, which it allocates as it first comes to them. The last
// begins at tick 18; all rings are full at tick 26.
struct recorder {
    char *segments[16];
    size_t n_written;
};
static recorder recorders[10];

OWN static void add_segment(char *&segment)
{
    segment = xmalloc(120000);
}

static void flight_recorder(int tick)
{
    for (int i = 0; i < 10; i++) {
        for (int n = tick < i * 2 ? 0 : 1 + i % 3 + i / 5; n > 0; n--) {
            char *&segment = recorders[i].segments[recorders[i].n_written++ % 16];
            if (!segment)
                add_segment(segment);
            segment[1] = 'r';
        }
    }
}

// Six logs, each of two buffers. A full one is given to the writer, which frees it when it has written it, a tick
// later.
static std::string filling[6], writing[6];

OWN static void append_line(std::string &log, size_t n)
{
    log.append(n, 'l');
}

static void double_buffered_logs(int)
{
    for (size_t i = 0; i < 6; i++) {
        std::string().swap(writing[i]);
        for (unsigned n = 100 + next_random(200); n > 0; n--)
            append_line(filling[i], 900);
        if (filling[i].size() > (i + 1) * 450000)
            writing[i].swap(filling[i]);
    }
}

// Objects are cut from slabs, and free ones are used again. Slabs are not given back at night.
static std::vector<char *> free_objects, used_objects;

OWN static char *new_slab()
{
    return xmalloc(256 << 10);
}

static char *take_object()
{
    if (free_objects.empty()) {
        char *slab = new_slab();
        for (size_t at = 0; at < 256 << 10; at += 2048)
            free_objects.push_back(slab + at);
    }
    char *taken = free_objects.back();
    free_objects.pop_back();
    return taken;
}

static void slab_reuse(int tick)
{
    static const size_t peaks[] = {3000, 6000, 4500, 5500}; // of four days of 12 ticks
    double day = 0.5 - 0.5 * cos(tick * 2 * M_PI / 12);
    size_t wanted = 500 + static_cast<size_t>(day * static_cast<double>(peaks[tick / 12 % 4])) + next_random(300);
    while (used_objects.size() < wanted)
        used_objects.push_back(take_object());
    while (used_objects.size() > wanted) {
        std::swap(used_objects[next_random(static_cast<unsigned>(used_objects.size()))], used_objects.back());
        free_objects.push_back(used_objects.back());
        used_objects.pop_back();
    }
}

// Chunks that are not needed stay for five ticks, so that they can be used again. Then they are given back.
static std::deque<std::pair<int, char *>> dirty;

OWN static char *map_chunk()
{
    return xmalloc(64 << 10);
}

static void decaying_chunks(int tick)
{
    std::vector<char *> needed;
    for (unsigned n = next_random(6) ? 20 + next_random(40) : 240; n > 0; n--) {
        if (dirty.empty()) {
            needed.push_back(map_chunk());
            continue;
        }
        needed.push_back(dirty.back().second);
        dirty.pop_back();
    }
    for (char *chunk : needed)
        dirty.emplace_back(tick, chunk);
    for (; !dirty.empty() && dirty.front().first < tick - 5; dirty.pop_front())
        free(dirty.front().second);
}

// Six threads, of which one starts every fourth tick. Each has a buffer of the size of the largest request that it had,
// at most 2 MB; large requests are rare.
static std::mutex &turn_mutex = *new std::mutex; // these two outlive exit, for the threads that wait
static std::condition_variable &turned = *new std::condition_variable;
static std::deque<size_t> requests_of[6];
static int n_waiting;

OWN static void grow_scratch(std::vector<char> &scratch, size_t n_bytes)
{
    std::vector<char>(n_bytes).swap(scratch);
}

static void scratch_user(int number)
{
    static thread_local std::vector<char> scratch;
    std::unique_lock<std::mutex> lock(turn_mutex);
    for (;;) {
        turned.wait(lock, [number] { return !requests_of[number].empty(); });
        size_t n_bytes = requests_of[number].front();
        requests_of[number].pop_front();
        if (n_bytes > scratch.size())
            grow_scratch(scratch, n_bytes);
        n_waiting--;
        turned.notify_all();
    }
}

static void thread_scratch_warms(int tick)
{
    if (tick % 4 == 0 && tick < 24)
        std::thread(scratch_user, tick / 4).detach();
    std::unique_lock<std::mutex> lock(turn_mutex);
    for (int number = 0; number <= std::min(tick / 4, 5); number++) {
        for (int i = 0; i < 150; i++, n_waiting++)
            requests_of[number].push_back(std::min(20000000u / (1 + next_random(10000)), 2000000u));
    }
    turned.notify_all();
    turned.wait(lock, [] { return !n_waiting; });
}

// Three workers. Each compiles a script when it is first asked for; there are 600, of which some are asked for rarely.
static std::unordered_map<unsigned, std::vector<int>> scripts;

OWN static void compile_script(unsigned number)
{
    scripts[number].resize(1200 + number * 7 % 2900);
}

static void opcode_caches(int)
{
    for (int i = 0; i < 150; i++) {
        unsigned number = (next_random(600) * next_random(600) / 600 + static_cast<unsigned>(worker) * 37) % 600;
        if (!scripts.count(number))
            compile_script(number);
    }
}

// Every nine ticks an index is built anew, in three ticks, while the old one answers. Then the old one is freed.
static std::vector<std::string> serving, building;

OWN static void add_posting()
{
    building.emplace_back(1000 + next_random(2500), 'i');
}

static void index_rebuilt(int tick)
{
    if (tick % 9 > 2)
        return;
    for (unsigned n = 1300 + next_random(300); n > 0; n--)
        add_posting();
    if (tick % 9 == 2) {
        serving.swap(building);
        std::vector<std::string>().swap(building);
    }
}

const program sound_servers[] = {
    {"leases_on_a_wheel", leases_on_a_wheel, 0},
    {"bounded_backlog", bounded_backlog, 0},
    {"reconnect_storm", reconnect_storm, 0},
    {"catalogue_changes", catalogue_changes, 0},
    {"flight_recorder", flight_recorder, 0},
    {"double_buffered_logs", double_buffered_logs, 0},
    {"slab_reuse", slab_reuse, 0},
    {"decaying_chunks", decaying_chunks, 0},
    {"thread_scratch_warms", thread_scratch_warms, 0},
    {"opcode_caches", opcode_caches, 3},
    {"index_rebuilt", index_rebuilt, 0},
    {nullptr, nullptr, 0},
};
