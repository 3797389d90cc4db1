// SPDX-License-Identifier: MIT
//
// sound_services.cpp - services whose memory fills, swings, is replaced or is collected, and that do not leak.
#include "paced.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

static void keep_newest(std::deque<char *> &blocks, size_t bound)
{
    for (; blocks.size() > bound; blocks.pop_front())
        free(blocks.front());
}

static void free_all(std::vector<char *> &blocks)
{
    for (char *block : blocks)
        free(block);
    blocks.clear();
}

// Sessions live for 60 steps.
static std::deque<char *> sessions;

OWN static char *create_session()
{
    return xmalloc(6000);
}

static void sessions_time_out(int)
{
    for (int i = 0; i < 40; i++)
        sessions.push_back(create_session());
    keep_newest(sessions, 40 * 60);
}

// A cache reaches its bound of 20 MB after two thirds of the run, and then evicts the oldest.
static std::deque<char *> cached;

OWN static char *fetch_object()
{
    return xmalloc(5000);
}

static void lru_full_late(int)
{
    for (int i = 0; i < 20; i++)
        cached.push_back(fetch_object());
    keep_newest(cached, 4000);
}

// A cache of 24 MB evicts by chance.
static std::vector<char *> slots;

OWN static char *read_block()
{
    return xmalloc(8000);
}

static void random_eviction(int)
{
    for (int i = 0; i < 40; i++) {
        if (slots.size() < 3000) {
            slots.push_back(read_block());
        } else {
            char *&slot = slots[next_random(3000)];
            free(slot);
            slot = read_block();
        }
    }
}

// A pool has 60 connections, 300 in spikes of the load, and replaces them as they age.
static std::deque<char *> pool;

OWN static char *open_connection()
{
    return xmalloc(24000);
}

static void pool_by_spikes(int step)
{
    size_t wanted = step % 70 < 45 ? 60 : 300;
    for (int i = 0; i < 6 || pool.size() < wanted; i++)
        pool.push_back(open_connection());
    keep_newest(pool, wanted);
}

// A log is flushed and freed every 60 steps.
static std::vector<char *> lines;

OWN static char *append_line()
{
    return xmalloc(1500);
}

static void log_rotated(int step)
{
    for (int i = 0; i < 120; i++)
        lines.push_back(append_line());
    if (step % 60 == 59)
        free_all(lines);
}

// Arenas of requests are freed at their end, 12 steps later.
static std::deque<char *> arenas;

OWN static char *new_arena()
{
    return xmalloc(32000);
}

static void arenas_of_requests(int)
{
    for (int i = 0; i < 30; i++)
        arenas.push_back(new_arena());
    keep_newest(arenas, 360);
}

// The rules of a plugin are compiled at each reload, and those of the last version are freed five steps later.
static std::vector<char *> rules, old_rules;

OWN static char *compile_rule()
{
    return xmalloc(4000);
}

static void plugin_replaced(int step)
{
    if (step % 25 == 0) {
        std::swap(rules, old_rules);
        for (int i = 0; i < 1200; i++)
            rules.push_back(compile_rule());
    } else if (step % 25 == 5) {
        free_all(old_rules);
    }
}

// 20 MB of tables are built in the first fifth of the run, and are used from then on.
static std::vector<char *> tables;

OWN static char *build_table()
{
    return xmalloc(10000);
}

static void warm_up_then_flat(int step)
{
    for (int i = 0; step < 60 && i < 34; i++)
        tables.push_back(build_table());
}

// Blocks of all sizes replace each other.
static char *mixed[6000];

OWN static char *allocate_mixed()
{
    return xmalloc(100U << next_random(8));
}

static void mixed_sizes(int)
{
    for (int i = 0; i < 300; i++) {
        char *&slot = mixed[next_random(6000)];
        free(slot);
        slot = allocate_mixed();
    }
}

// A batch is collected for 120 steps and then freed. The run ends half way up.
static std::vector<char *> batch;

OWN static char *collect_row()
{
    return xmalloc(4000);
}

static void slow_sawtooth(int step)
{
    for (int i = 0; i < 25; i++)
        batch.push_back(collect_row());
    if (step % 120 == 119)
        free_all(batch);
}

// The number of users swings between 200 and 2200, and half of each has a session.
static std::deque<char *> users;

OWN static char *log_in()
{
    return xmalloc(7000);
}

static void users_by_day(int step)
{
    size_t wanted = static_cast<size_t>(1200 - 1000 * cos(step / 200.0 * 2 * M_PI));
    for (int i = 0; i < 30 || users.size() < wanted; i++)
        users.push_back(log_in());
    keep_newest(users, wanted);
}

// The master waits, and its worker has a cache that is full after 100 steps.
static std::deque<char *> worker_cache;

OWN static char *cache_in_worker()
{
    return xmalloc(6000);
}

static void worker_with_cache(int step)
{
    pid_t worker = step ? 0 : fork();
    if (worker > 0) {
        int status;
        waitpid(worker, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    for (int i = 0; i < 25; i++)
        worker_cache.push_back(cache_in_worker());
    keep_newest(worker_cache, 2500);
}

// A burst of requests every 75 steps is worked off within 40.
static std::deque<char *> burst;

OWN static char *accept_request()
{
    return xmalloc(9000);
}

static void bursts_worked_off(int step)
{
    for (int i = 0; i < (step % 75 < 10 ? 200 : 10); i++)
        burst.push_back(accept_request());
    keep_newest(burst, burst.size() - (burst.size() < 60 ? burst.size() / 2 : 60));
}

// Words are interned, and there are 5000 of them.
static std::unordered_map<unsigned, char *> words;

OWN static char *intern_word()
{
    return xmalloc(3000);
}

static void words_run_out(int)
{
    for (int i = 0; i < 80; i++) {
        char *&word = words[next_random(5000)];
        if (!word)
            word = intern_word();
    }
}

// Removed nodes wait for two epochs of 20 steps before they are freed.
static std::vector<char *> retired[3];

OWN static char *new_version()
{
    return xmalloc(2500);
}

static void retired_by_epochs(int step)
{
    int epoch = step / 20 % 3;
    if (step % 20 == 0)
        free_all(retired[epoch]);
    for (int i = 0; i < 100; i++)
        retired[epoch].push_back(new_version());
}

// An index of 6 MB is built beside the old one every 50 steps, in ten steps, and replaces it.
static std::vector<char *> shown, built;

OWN static char *index_document()
{
    return xmalloc(6000);
}

static void index_built_again(int step)
{
    for (int i = 0; step % 50 < 10 && i < 100; i++)
        built.push_back(index_document());
    if (step % 50 != 10)
        return;
    free_all(shown);
    std::swap(shown, built);
}

// A producer is faster than its consumer until 12 MB wait, and is then held back.
static std::deque<char *> waiting;

OWN static char *enqueue_job()
{
    return xmalloc(4000);
}

static void producer_held_back(int)
{
    for (int i = 0; i < 60 && waiting.size() < 3000; i++)
        waiting.push_back(enqueue_job());
    keep_newest(waiting, waiting.size() - 40);
}

// A history of measurements overwrites its oldest entry once it has 4000.
static char *history[4000];
static unsigned n_measured;

OWN static char *keep_measurement()
{
    return xmalloc(3600);
}

static void history_overwritten(int)
{
    for (int i = 0; i < 28; i++) {
        char *&slot = history[n_measured++ % 4000];
        free(slot);
        slot = keep_measurement();
    }
}

// The load doubles half way. Requests live for 30 steps.
static std::deque<char *> requests;

OWN static char *begin_request()
{
    return xmalloc(5000);
}

static void load_doubles(int step)
{
    size_t n = step < 150 ? 40 : 80;
    for (size_t i = 0; i < n; i++)
        requests.push_back(begin_request());
    keep_newest(requests, 30 * n);
}

// Objects are collected when 16 MB stand, and one in five survives its first collection only.
static std::vector<char *> young, old;

OWN static char *new_object()
{
    return xmalloc(2000);
}

static void collected_when_full(int)
{
    for (int i = 0; i < 150; i++)
        young.push_back(new_object());
    if (young.size() < 8000)
        return;
    free_all(old);
    for (size_t i = 0; i < young.size(); i++) {
        if (i % 5)
            free(young[i]);
        else
            old.push_back(young[i]);
    }
    young.clear();
}

extern const struct paced_program sound_services[] = {
    {"sessions_time_out", sessions_time_out, nullptr},
    {"lru_full_late", lru_full_late, nullptr},
    {"random_eviction", random_eviction, nullptr},
    {"pool_by_spikes", pool_by_spikes, nullptr},
    {"log_rotated", log_rotated, nullptr},
    {"arenas_of_requests", arenas_of_requests, nullptr},
    {"plugin_replaced", plugin_replaced, nullptr},
    {"warm_up_then_flat", warm_up_then_flat, nullptr},
    {"mixed_sizes", mixed_sizes, nullptr},
    {"slow_sawtooth", slow_sawtooth, nullptr},
    {"users_by_day", users_by_day, nullptr},
    {"worker_with_cache", worker_with_cache, nullptr},
    {"bursts_worked_off", bursts_worked_off, nullptr},
    {"words_run_out", words_run_out, nullptr},
    {"retired_by_epochs", retired_by_epochs, nullptr},
    {"index_built_again", index_built_again, nullptr},
    {"producer_held_back", producer_held_back, nullptr},
    {"history_overwritten", history_overwritten, nullptr},
    {"load_doubles", load_doubles, nullptr},
    {"collected_when_full", collected_when_full, nullptr},
    {},
};
