// SPDX-License-Identifier: MIT
//
// timers_and_buffers.cpp - timers, lists, headers, logs and buffers. Some leak; others fill, rotate or are emptied.
#include "programs.h"

#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

// ---- that leak ----

// Timers are never cancelled: their closures hold a request's buffer.
static std::vector<std::function<char *()>> timers;

OWN static char *schedule_timeout()
{
    return xmalloc(5000);
}

static void timer_closures(int)
{
    for (int i = 0; i < 120; i++) {
        char *request = schedule_timeout();
        if (i % 3)
            free(request);
        else
            timers.push_back([request] { return request; });
    }
}

// Nodes are removed from a list and not freed.
struct node {
    node *next;
    char data[1000];
};
static node *first;

OWN static node *append_node()
{
    return static_cast<node *>(static_cast<void *>(xmalloc(sizeof(node))));
}

static void unlinked_nodes(int)
{
    for (int i = 0; i < 400; i++) {
        node *fresh = append_node();
        fresh->next = first;
        first = fresh;
    }
    for (int i = 0; i < 400; i++) {
        node *gone = first;
        first = first->next;
        if (i % 2)
            free(gone);
    }
}

// A pointer in a map is overwritten, and its old target is lost.
static std::map<int, char *> headers;

OWN static char *set_header()
{
    return xmalloc(3000);
}

static void overwritten_values(int)
{
    for (int i = 0; i < 150; i++)
        headers[static_cast<int>(next_random(500))] = set_header();
}

// Threads end without freeing their buffers.
OWN static void thread_buffer()
{
    xmalloc(24000);
}

static void thread_buffers(int)
{
    for (int i = 0; i < 12; i++)
        std::thread(thread_buffer).join();
}

// Memory in proportion to the load, which varies from nothing to twice the mean.
OWN static void enqueue_audit()
{
    xmalloc(2500);
}

static void varying_load(int)
{
    for (unsigned i = next_random(400); i > 0; i--)
        enqueue_audit();
}

// A few strings that only grow, like a log buffer that is never flushed.
static std::string lines[8];

OWN static void add_line(std::string &line)
{
    line.append(20000, 'x');
}

static void lines_never_flushed(int)
{
    for (int i = 0; i < 16; i++)
        add_line(lines[i % 8]);
}

// ---- that do not ----

static std::deque<std::pair<char *, size_t>> cached;
static size_t cached_bytes;

OWN static void cache_by_bytes(size_t n_bytes)
{
    cached.emplace_back(xmalloc(n_bytes), n_bytes);
    cached_bytes += n_bytes;
}

static void cache_of_bytes(int)
{
    for (int i = 0; i < 200; i++)
        cache_by_bytes(500 + next_random(60000));
    while (cached_bytes > 24 << 20) {
        free(cached.front().first);
        cached_bytes -= cached.front().second;
        cached.pop_front();
    }
}

static char *ring[4000];

OWN static void log_to_ring(char *&slot)
{
    free(slot);
    slot = xmalloc(1000 + next_random(6000));
}

static void log_ring(int)
{
    for (int i = 0; i < 500; i++)
        log_to_ring(ring[next_random(4000)]);
}

static std::vector<char *> batch;

OWN static void load_batch()
{
    batch.push_back(xmalloc(100000));
}

static void batch_every_ten(int tick)
{
    for (char *block : batch)
        free(block);
    batch.clear();
    for (int i = 0; tick % 10 == 9 && i < 250; i++)
        load_batch();
}

static std::list<char *> warm;

OWN static void warm_up()
{
    warm.push_back(xmalloc(9000));
}

static void warms_up_until_tick_24(int tick)
{
    for (int i = 0; i < 60; i++) {
        warm_up();
        if (tick >= 24) {
            free(warm.front());
            warm.pop_front();
        }
    }
}

static std::vector<char *> connections;

OWN static void accept_connection()
{
    connections.push_back(xmalloc(16000));
}

// Each connection ends in a tick with a probability of one sixth.
static void long_connections(int)
{
    for (size_t i = 0; i < connections.size();) {
        if (next_random(6)) {
            i++;
            continue;
        }
        free(connections[i]);
        connections[i] = connections.back();
        connections.pop_back();
    }
    for (unsigned i = 60 + next_random(60); i > 0; i--)
        accept_connection();
}

static std::vector<char> rows;

OWN static void grow_rows()
{
    rows.resize(rows.size() + 300000);
}

static void regrown_buffer(int tick)
{
    if (tick % 7 == 0)
        std::vector<char>().swap(rows);
    for (int i = 0; i < 5; i++)
        grow_rows();
}

const program timers_and_buffers[] = {
    {"timer_closures", timer_closures, 0},
    {"unlinked_nodes", unlinked_nodes, 0},
    {"overwritten_values", overwritten_values, 0},
    {"thread_buffers", thread_buffers, 0},
    {"varying_load", varying_load, 0},
    {"lines_never_flushed", lines_never_flushed, 0},
    {"cache_of_bytes", cache_of_bytes, 0},
    {"log_ring", log_ring, 0},
    {"batch_every_ten", batch_every_ten, 0},
    {"warms_up_until_tick_24", warms_up_until_tick_24, 0},
    {"long_connections", long_connections, 0},
    {"regrown_buffer", regrown_buffer, 0},
    {nullptr, nullptr, 0},
};
