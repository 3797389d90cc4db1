// SPDX-License-Identifier: MIT
//
// sound_patterns.cpp - programs whose memory grows for a time, or goes up and down, and that lose none.
#include "programs.h"

#include <cmath>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

static std::deque<char *> entries;

static void keep_at_most(std::deque<char *> &blocks, size_t most)
{
    while (blocks.size() > most) {
        free(blocks.front());
        blocks.pop_front();
    }
}

OWN static void cache_entry(size_t n_bytes)
{
    entries.push_back(xmalloc(n_bytes));
}

static void cache_fills(int)
{
    for (int i = 0; i < 500; i++)
        cache_entry(4096);
    keep_at_most(entries, 5000);
}

static void cache_fills_slowly(int)
{
    for (int i = 0; i < 300; i++)
        cache_entry(6000);
    keep_at_most(entries, 5400);
}

static void worker_caches(int)
{
    for (int i = 0; i < 200 + 50 * worker; i++)
        cache_entry(8000);
    keep_at_most(entries, 2000);
}

static std::vector<char *> pool;

OWN static char *pool_take()
{
    if (pool.empty())
        return xmalloc(10000);
    char *taken = pool.back();
    pool.pop_back();
    return taken;
}

static void object_pool(int tick)
{
    std::vector<char *> taken;
    for (unsigned i = 0, n = 300 + next_random(100) + (tick > 10 ? 200 : tick * 20); i < n; i++)
        taken.push_back(pool_take());
    pool.insert(pool.end(), taken.begin(), taken.end());
}

OWN static char *arena_chunk()
{
    return xmalloc(65536);
}

static void request_arenas(int)
{
    static std::vector<char *> arena;
    for (int request = 0; request < 50; request++) {
        for (char *chunk : arena)
            free(chunk);
        arena.clear();
        for (unsigned i = 0, n = 1 + next_random(30); i < n; i++)
            arena.push_back(arena_chunk());
    }
}

static char *tables[400];

OWN static void build_table(int i)
{
    if (!tables[i])
        tables[i] = xmalloc(60000);
}

static void lazy_tables(int tick)
{
    for (int i = 0; i < 60; i++)
        build_table(static_cast<int>(next_random(tick < 12 ? 30 * (static_cast<unsigned>(tick) + 1) : 400)));
}

static std::deque<char *> connections;

OWN static void open_connection()
{
    connections.push_back(xmalloc(12000));
}

static void serve_connections(size_t n_live)
{
    for (int i = 0; i < 1500; i++) {
        open_connection();
        keep_at_most(connections, n_live);
    }
}

static void load_doubles(int tick)
{
    serve_connections(tick < 24 ? 800 : 1600);
}

static void load_ramps(int tick)
{
    serve_connections(400 + 60 * static_cast<size_t>(tick < 22 ? tick : 22));
}

static void periodic_load(int tick)
{
    serve_connections(static_cast<size_t>(900 + 500 * sin(tick * 2 * M_PI / 8)));
}

static void daily_peak(int tick)
{
    serve_connections(static_cast<size_t>(300 + 1200 * exp(-(tick - 22) * (tick - 22) / 60.0)));
}

static std::deque<char *> backlog;

OWN static void enqueue()
{
    backlog.push_back(xmalloc(9000));
}

static void backlog_drains(int tick)
{
    size_t wanted = tick < 15   ? 50
                    : tick < 25 ? 50 + 200 * static_cast<size_t>(tick - 15)
                                : 2050 - 200 * static_cast<size_t>(tick < 35 ? tick - 25 : 10);
    for (int i = 0; i < 600; i++)
        enqueue();
    keep_at_most(backlog, wanted);
}

OWN static char *store_value()
{
    return xmalloc(16 + next_random(40000));
}

static void fragmentation(int)
{
    static char *values[1500];
    for (int i = 0; i < 2500; i++) {
        char **at = &values[next_random(1500)];
        free(*at);
        *at = store_value();
    }
}

static std::vector<char *> resident;

OWN static void load_shard()
{
    resident.push_back(xmalloc(15000));
}

static void stops_at_two_thirds(int tick)
{
    for (int i = 0; tick < 27 && i < 50; i++)
        load_shard();
}

OWN static void start_phase()
{
    resident.push_back(xmalloc(4 << 20));
}

static void phases_of_start(int tick)
{
    if (tick == 0 || tick == 9 || tick == 18)
        for (int i = 0; i < 4; i++)
            start_phase();
}

static std::unordered_set<unsigned> seen;

OWN static void remember_user(unsigned id)
{
    seen.insert(id);
}

static void hash_fills(int)
{
    for (int i = 0; i < 60000; i++)
        remember_user(next_random(300000));
}

static char *buffers[2];

OWN static char *fill_buffer()
{
    return xmalloc(8 << 20);
}

static void double_buffer(int tick)
{
    for (int i = 0; i < 4; i++) {
        char *fresh = fill_buffer();
        free(buffers[(tick + i) % 2]);
        buffers[(tick + i) % 2] = fresh;
    }
}

OWN static void accept_client()
{
    connections.push_back(xmalloc(20000));
}

static void random_lifetimes(int)
{
    for (int i = 0; i < 1000; i++) {
        accept_client();
        if (connections.size() > 500 + next_random(200)) {
            size_t at = next_random(static_cast<unsigned>(connections.size()));
            free(connections[at]);
            connections[at] = connections.back();
            connections.pop_back();
        }
    }
    keep_at_most(connections, 700);
}

static std::mutex mutex;
static std::condition_variable &woken = *new std::condition_variable; // outlives exit: its destructor waits for waiters
static std::deque<char *> jobs;

OWN static char *make_job()
{
    return xmalloc(30000);
}

static void consume()
{
    for (;;) {
        std::unique_lock<std::mutex> lock(mutex);
        woken.wait(lock, [] { return !jobs.empty(); });
        free(jobs.front());
        jobs.pop_front();
        woken.notify_all();
    }
}

static void freed_by_another_thread(int tick)
{
    if (!tick)
        std::thread(consume).detach();
    for (int i = 0; i < 500; i++) {
        char *job = make_job();
        std::unique_lock<std::mutex> lock(mutex);
        woken.wait(lock, [] { return jobs.size() < 200; });
        jobs.push_back(job);
        woken.notify_all();
    }
}

static std::vector<char *> garbage;

OWN static void make_object()
{
    garbage.push_back(xmalloc(5000));
}

static void collect_every(int tick, int n_ticks, int n_objects)
{
    if (tick % n_ticks == n_ticks - 1) {
        for (char *object : garbage)
            free(object);
        garbage.clear();
    }
    for (int i = 0; i < n_objects; i++)
        make_object();
}

static void garbage_collected(int tick)
{
    collect_every(tick, 7, 700);
}

static void garbage_collected_rarely(int tick)
{
    collect_every(tick, 16, 300);
}

static std::unordered_map<unsigned, std::string> results;

OWN static void memoize(unsigned key)
{
    results.try_emplace(key, 8000, 'm');
}

static void memoize_bounded(int)
{
    for (int i = 0; i < 500; i++)
        memoize(next_random(2500));
}

static std::unordered_set<std::string> words;

OWN static void intern(unsigned n)
{
    words.insert(std::string(3000, 'w') + std::to_string(n));
}

static void interned_names(int)
{
    for (int i = 0; i < 900; i++)
        intern(next_random(3000));
}

static std::list<char *> lines;

OWN static void log_line()
{
    lines.push_back(xmalloc(3000));
}

static void log_flushed(int tick)
{
    for (int i = 0; i < 900; i++)
        log_line();
    while (tick % 4 == 3 && !lines.empty()) {
        free(lines.front());
        lines.pop_front();
    }
}

OWN static void init_codec()
{
    resident.push_back(xmalloc(3 << 20));
}

OWN static void init_fonts()
{
    resident.push_back(xmalloc(5 << 20));
}

OWN static void init_spelling()
{
    resident.push_back(xmalloc(2 << 20));
}

static void late_singletons(int tick)
{
    if (tick == 21)
        init_codec();
    if (tick == 25)
        init_fonts();
    if (tick == 33)
        init_spelling();
}

static std::deque<char *> tokens;

OWN static void issue_token()
{
    tokens.push_back(xmalloc(6000));
}

static void tokens_expire(int)
{
    for (unsigned i = 0, n = 250 + next_random(100); i < n; i++)
        issue_token();
    keep_at_most(tokens, 8 * 300);
}

static std::deque<char *> retries;

OWN static void schedule_retry()
{
    retries.push_back(xmalloc(11000));
}

static void retries_wander(int)
{
    static double wanted = 500;
    wanted += 0.3 * (500 - wanted) + next_random(301) - 150.0;
    for (int i = 0; i < 900; i++)
        schedule_retry();
    keep_at_most(retries, wanted > 0 ? static_cast<size_t>(wanted) : 0);
}

OWN static char *thread_arena()
{
    return xmalloc(2 << 20);
}

static void thread_pool(int tick)
{
    if (tick < 6)
        resident.push_back(thread_arena());
    std::vector<std::thread> some;
    for (int i = 0; i < 4; i++)
        some.emplace_back([] { free(thread_arena()); });
    for (std::thread &one : some)
        one.join();
}

const program sound_patterns[] = {
    {"cache_fills", cache_fills, 0},
    {"cache_fills_slowly", cache_fills_slowly, 0},
    {"object_pool", object_pool, 0},
    {"request_arenas", request_arenas, 0},
    {"lazy_tables", lazy_tables, 0},
    {"load_doubles", load_doubles, 0},
    {"load_ramps", load_ramps, 0},
    {"periodic_load", periodic_load, 0},
    {"backlog_drains", backlog_drains, 0},
    {"fragmentation", fragmentation, 0},
    {"stops_at_two_thirds", stops_at_two_thirds, 0},
    {"phases_of_start", phases_of_start, 0},
    {"hash_fills", hash_fills, 0},
    {"double_buffer", double_buffer, 0},
    {"random_lifetimes", random_lifetimes, 0},
    {"thread_pool", thread_pool, 0},
    {"garbage_collected", garbage_collected, 0},
    {"garbage_collected_rarely", garbage_collected_rarely, 0},
    {"memoize_bounded", memoize_bounded, 0},
    {"interned_names", interned_names, 0},
    {"log_flushed", log_flushed, 0},
    {"daily_peak", daily_peak, 0},
    {"late_singletons", late_singletons, 0},
    {"freed_by_another_thread", freed_by_another_thread, 0},
    {"tokens_expire", tokens_expire, 0},
    {"retries_wander", retries_wander, 0},
    {"worker_caches", worker_caches, 3},
    {nullptr, nullptr, 0},
};
