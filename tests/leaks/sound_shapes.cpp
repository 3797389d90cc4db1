// SPDX-License-Identifier: MIT
//
// sound_shapes.cpp - caches, pools, tables, sessions and buffers that grow for a time, and lose nothing.
#include "programs.h"

#include <cmath>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

// Entries of all sizes, replaced in the order of their last use.
static std::list<std::pair<unsigned, std::string>> order;
static std::unordered_map<unsigned, std::list<std::pair<unsigned, std::string>>::iterator> places;

OWN static void lru_insert(unsigned id)
{
    order.emplace_front(id, std::string(200 + next_random(15000), 'v'));
    places[id] = order.begin();
}

static void lru_at_bound(int)
{
    for (int i = 0; i < 700; i++) {
        unsigned id = next_random(1000) * next_random(1000) / 100;
        auto found = places.find(id);
        if (found != places.end()) {
            order.splice(order.begin(), order, found->second);
            continue;
        }
        lru_insert(id);
        if (order.size() > 900) {
            places.erase(order.back().first);
            order.pop_back();
        }
    }
}

// Of 3000 keys, few are asked for often and many rarely: the cache fills ever more slowly.
static std::map<unsigned, char *> by_key;

OWN static void fetch(unsigned id)
{
    char *&value = by_key[id];
    if (!value)
        value = xmalloc(7000);
}

static void cache_of_popular_keys(int)
{
    for (int i = 0; i < 1500; i++)
        fetch(static_cast<unsigned>(3000 * pow(next_random(10000) / 10000.0, 2)));
}

// An arena keeps its chunks from request to request: it grows to the largest request seen so far.
static std::vector<char *> chunks;

OWN static void add_chunk()
{
    chunks.push_back(xmalloc(32768));
}

static void arena_keeps_chunks(int)
{
    for (int request = 0; request < 40; request++)
        for (unsigned n = next_random(20) * next_random(20); chunks.size() < n;)
            add_chunk();
}

// Sessions end eight ticks after they begin; at tick 18 twice as many come.
static std::deque<std::pair<int, char *>> sessions;

OWN static void begin_session(int tick)
{
    sessions.emplace_back(tick, xmalloc(5000));
}

static void serve_sessions(int tick, int n, int ttl)
{
    while (!sessions.empty() && sessions.front().first <= tick - ttl) {
        free(sessions.front().second);
        sessions.pop_front();
    }
    for (int i = 0; i < n; i++)
        begin_session(tick);
}

static void sessions_double(int tick)
{
    serve_sessions(tick, tick < 18 ? 200 : 400, 8);
}

// Sessions that live for fifteen ticks, of a load that varies.
static void sessions_live_long(int tick)
{
    serve_sessions(tick, 150 + static_cast<int>(next_random(100)), 15);
}

// More sessions come from tick to tick, all the time; each lives for three ticks.
static void traffic_grows(int tick)
{
    serve_sessions(tick, 150 + 8 * tick, 3);
}

// Three logs are flushed when they are full, each at another size.
static std::vector<char *> logs[3];

OWN static void write_log(std::vector<char *> &log)
{
    log.push_back(xmalloc(2000));
}

static void logs_flushed_when_full(int)
{
    for (int i = 0; i < 900; i++)
        write_log(logs[i % 3]);
    for (size_t i = 0; i < 3; i++) {
        if (logs[i].size() < 2000 + 700 * i)
            continue;
        for (char *line : logs[i])
            free(line);
        logs[i].clear();
    }
}

// Tables are built when a country is first seen; few countries are left to be seen in the end.
static std::map<unsigned, char *> countries;

OWN static void build_country(unsigned country)
{
    char *&table = countries[country];
    if (!table)
        table = xmalloc(100000);
}

static void tables_by_country(int)
{
    for (int i = 0; i < 20; i++)
        build_country(next_random(190));
}

// Slots of a ring keep a buffer of the largest message that they had.
static std::string slots[1000];

OWN static void put_message(std::string &slot, size_t n_bytes)
{
    slot.assign(n_bytes, 'm');
}

static void ring_of_strings(int tick)
{
    for (int i = 0; i < 400; i++)
        put_message(slots[(tick * 400 + i) % 1000], 100 + next_random(20000));
}

// Segments are added each tick and merged every five ticks; a merge drops what was overwritten.
static std::vector<char *> segments;
static std::vector<char *> merged;

OWN static void write_segment()
{
    segments.push_back(xmalloc(16000));
}

OWN static void compact()
{
    for (char *block : segments)
        free(block);
    segments.clear();
    for (char *block : merged)
        free(block);
    merged.clear();
    for (int i = 0; i < 250; i++)
        merged.push_back(xmalloc(16000));
}

static void compaction(int tick)
{
    for (int i = 0; i < 80; i++)
        write_segment();
    if (tick % 5 == 4)
        compact();
}

// An array that doubles until all 60,000 rows are in it, at tick 12, and that is then only read.
static std::vector<std::string> rows;

OWN static void add_row()
{
    rows.emplace_back("row");
}

static void array_doubles_and_stops(int tick)
{
    for (int i = 0; tick < 12 && i < 5000; i++)
        add_row();
}

// The last 2600 steps can be undone.
static std::deque<char *> steps;

OWN static void record_step()
{
    steps.push_back(xmalloc(1000 + next_random(9000)));
}

static void undo_history(int)
{
    for (int i = 0; i < 130; i++) {
        record_step();
        if (steps.size() > 2600) {
            free(steps.front());
            steps.pop_front();
        }
    }
}

const program sound_shapes[] = {
    {"lru_at_bound", lru_at_bound, 0},
    {"cache_of_popular_keys", cache_of_popular_keys, 0},
    {"arena_keeps_chunks", arena_keeps_chunks, 0},
    {"sessions_double", sessions_double, 0},
    {"sessions_live_long", sessions_live_long, 0},
    {"traffic_grows", traffic_grows, 0},
    {"logs_flushed_when_full", logs_flushed_when_full, 0},
    {"tables_by_country", tables_by_country, 0},
    {"ring_of_strings", ring_of_strings, 0},
    {"compaction", compaction, 0},
    {"array_doubles_and_stops", array_doubles_and_stops, 0},
    {"undo_history", undo_history, 0},
    {nullptr, nullptr, 0},
};
