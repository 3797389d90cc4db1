// SPDX-License-Identifier: MIT
//
// leaking_shapes.cpp - leaks of many shapes: slow, fast, in bursts, in steps, and hidden in the traffic of their stack.
#include "programs.h"

#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

// One connection in 20 ends on a path that forgets its state.
OWN static char *open_connection_state()
{
    return xmalloc(4000);
}

static void per_connection(int)
{
    for (int i = 0; i < 600; i++) {
        char *state = open_connection_state();
        if (next_random(20))
            free(state);
    }
}

// 0.8 % of 40 MB a tick, from a stack that always has 64 blocks in flight.
static char *in_flight[64];

OWN static char *read_packet()
{
    return xmalloc(20000);
}

static void under_one_percent(int)
{
    for (int i = 0; i < 2000; i++) {
        char **at = &in_flight[next_random(64)];
        if (next_random(1000) >= 8)
            free(*at);
        *at = read_packet();
    }
}

// A backend fails for one tick in six, and each failure keeps its context.
OWN static void save_failure()
{
    xmalloc(8000);
}

static void errors_in_bursts(int tick)
{
    for (int i = 0; tick % 6 == 3 && i < 150; i++)
        save_failure();
}

// One array that is doubled whenever it is full, and never emptied.
static std::vector<char> history;

OWN static void append_event()
{
    history.insert(history.end(), 2500, 'e');
}

static void one_array_doubles(int)
{
    for (int i = 0; i < 100; i++)
        append_event();
}

// A table from which nothing is erased: its nodes are small, its buckets grow by rehashing.
static std::unordered_map<unsigned, unsigned> counts;

OWN static void count_visit(unsigned id)
{
    counts[id]++;
}

static void table_rehashes(int tick)
{
    for (unsigned i = 0; i < 20000; i++)
        count_visit(static_cast<unsigned>(tick) * 20000 + i);
}

// Streams of the C library that are never closed.
OWN static void open_report()
{
    char **text = new char *;
    size_t *n = new size_t;
    fputs("report", open_memstream(text, n));
}

static void streams_of_libc(int)
{
    for (int i = 0; i < 40; i++)
        open_report();
}

// Values of a thread's key that has no destructor.
static pthread_key_t key;

OWN static void set_thread_buffer()
{
    pthread_setspecific(key, xmalloc(15000));
}

static void key_without_destructor(int tick)
{
    if (!tick)
        pthread_key_create(&key, nullptr);
    for (int i = 0; i < 20; i++)
        std::thread(set_thread_buffer).join();
}

// Subscribers come and go; leaving removes one only if it is the newest.
static std::list<std::pair<int, std::function<int()>>> subscribers;

OWN static void add_subscriber(int id)
{
    char settings[700] = "";
    subscribers.emplace_back(id, [settings] { return static_cast<int>(strlen(settings)); });
}

static void wrong_subscriber_removed(int tick)
{
    for (int i = 0; i < 900; i++) {
        add_subscriber(tick * 900 + i);
        if (i % 3 == 0)
            add_subscriber(-1);
        if (subscribers.back().first == tick * 900 + i)
            subscribers.pop_back();
    }
}

// Messages of errors are kept for a report that nobody asks for.
static std::vector<std::string> messages;

OWN static void keep_message(const std::exception &error)
{
    messages.push_back(std::string(2500, ' ') + error.what());
}

static void error_messages(int)
{
    for (int i = 0; i < 110; i++) {
        try {
            throw std::runtime_error("no such key");
        } catch (const std::exception &error) {
            keep_message(error);
        }
    }
}

// Fast: 5 MB a tick.
OWN static void render_frame()
{
    xmalloc(50000);
}

static void fast(int)
{
    for (int i = 0; i < 100; i++)
        render_frame();
}

// Work comes for five ticks, then there is none for five.
static std::deque<char *> audit;

OWN static void audit_request()
{
    audit.push_back(xmalloc(3000));
}

static void by_shifts(int tick)
{
    for (int i = 0; tick % 10 < 5 && i < 250; i++)
        audit_request();
}

// An LRU cache at its bound frees its entries, but not what one in four has attached.
struct entry {
    char *value, *attached;
};
static std::deque<entry> lru;

OWN static char *load_value()
{
    return xmalloc(6000);
}

OWN static char *attach_preview()
{
    return xmalloc(4000);
}

static void evicted_without_attachment(int)
{
    for (int i = 0; i < 300; i++) {
        lru.push_back({load_value(), i % 4 ? nullptr : attach_preview()});
        if (lru.size() > 1000) {
            free(lru.front().value);
            lru.pop_front();
        }
    }
}

const program leaking_shapes[] = {
    {"per_connection", per_connection, 0},
    {"under_one_percent", under_one_percent, 0},
    {"errors_in_bursts", errors_in_bursts, 0},
    {"one_array_doubles", one_array_doubles, 0},
    {"table_rehashes", table_rehashes, 0},
    {"streams_of_libc", streams_of_libc, 0},
    {"key_without_destructor", key_without_destructor, 0},
    {"wrong_subscriber_removed", wrong_subscriber_removed, 0},
    {"error_messages", error_messages, 0},
    {"fast", fast, 0},
    {"by_shifts", by_shifts, 0},
    {"evicted_without_attachment", evicted_without_attachment, 0},
    {nullptr, nullptr, 0},
};
