// SPDX-License-Identifier: MIT
//
// sound_games.cpp - memory of interpreters, databases, games and media servers that grows for a time, or
// swings, and is not lost.
#include "programs.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// Code of functions: simple code after eight calls, faster code, which replaces it, when a function is called often. If
// an assumption of the faster code fails, it is dropped. From tick 15 on another part of the program runs too.
struct compiled {
    unsigned n_calls = 0, n_failures = 0;
    bool is_fast = false;
    char *code = nullptr;
};

OWN static char *compile_simple()
{
    return xmalloc(900 + next_random(3000));
}

OWN static char *compile_fast()
{
    return xmalloc(5000 + next_random(12000));
}

static void call_function(compiled &function)
{
    function.n_calls++;
    if (function.is_fast && function.n_failures < 3 && !next_random(2000)) {
        free(std::exchange(function.code, nullptr));
        function.is_fast = false;
        function.n_failures++;
    }
    if (!function.code && function.n_calls >= 8)
        function.code = compile_simple();
    if (!function.is_fast && function.n_calls >= 60) {
        free(function.code);
        function.code = compile_fast();
        function.is_fast = true;
    }
}

static void tiers_of_code(int tick)
{
    static compiled functions[1600];
    for (int i = 0; i < 9000; i++) {
        unsigned number = next_random(800) * (next_random(800) + 1) / 800 * (next_random(800) + 1) / 800;
        call_function(functions[number + (tick >= 15 && i % 2 ? 800 : 0)]);
    }
    for (auto &function : functions) {
        if (tick % 3 == 2)
            function.n_calls /= 2;
    }
}

// Nodes that were replaced are freed when two epochs have passed. An epoch passes when its slowest reader is done,
// after two to six ticks.
static std::vector<char *> replaced[3];

OWN static char *new_index_node()
{
    return xmalloc(1500 + next_random(5000));
}

static void epochs_pass(int tick)
{
    static char *index_nodes[700];
    static int epoch, next_epoch = 3;
    for (int i = 0; i < 260; i++) {
        char *&node = index_nodes[next_random(700)];
        replaced[epoch % 3].push_back(std::exchange(node, new_index_node()));
    }
    if (tick < next_epoch)
        return;
    next_epoch = tick + 2 + static_cast<int>(next_random(5));
    epoch++;
    for (char *node : replaced[epoch % 3])
        free(node);
    replaced[epoch % 3].clear();
}

// Old versions of rows stay in a table until 3600 are dead. Then all dead ones are removed.
static std::vector<char *> dead_rows;

OWN static char *write_row()
{
    return xmalloc(800 + next_random(2000));
}

static void vacuum_by_share(int)
{
    static char *live_rows[900];
    for (unsigned n = 200 + next_random(120); n > 0; n--) {
        char *&row = live_rows[next_random(900)];
        if (row)
            dead_rows.push_back(row);
        row = write_row();
    }
    if (dead_rows.size() < 3600)
        return;
    for (char *row : dead_rows)
        free(row);
    dead_rows.clear();
}

// The parts of a world around each player are loaded, and given up when no player was near for three ticks. Players
// come until tick 26; then most go.
struct region {
    int used;
    std::string blocks;
};
static std::map<std::pair<int, int>, region> regions;

OWN static void load_region(std::pair<int, int> place)
{
    regions[place].blocks.assign(14000 + next_random(16000), 'b');
}

static void regions_around_players(int tick)
{
    static struct {
        int x, y, dx, dy;
    } players[30];
    int n_players = tick <= 26 ? 4 + tick : std::max(11, 30 - (tick - 26) * 3);
    for (int i = 0; i < n_players; i++) {
        auto &p = players[i];
        if (!next_random(4) || !tick) {
            p.dx = static_cast<int>(next_random(3)) - 1;
            p.dy = static_cast<int>(next_random(3)) - 1;
        }
        p.x += p.dx;
        p.y += p.dy;
        for (int j = 0; j < 9; j++) {
            std::pair<int, int> place{p.x + i * 50 + j % 3, p.y + j / 3};
            if (!regions.count(place))
                load_region(place);
            regions[place].used = tick;
        }
    }
    for (auto at = regions.begin(); at != regions.end();)
        at = at->second.used < tick - 3 ? regions.erase(at) : std::next(at);
}

// Records that undo what a transaction did, until it commits. Most commit at once. One lasts from tick 5 to 20, one
// from 26 to 34.
static std::vector<char *> of_long_transaction;

OWN static char *undo_record()
{
    return xmalloc(400 + next_random(4000));
}

static void long_transactions(int tick)
{
    for (int i = 0; i < 400; i++)
        free(undo_record());
    bool is_open = (tick >= 5 && tick < 20) || (tick >= 26 && tick < 34);
    for (int i = 0; is_open && i < 130; i++)
        of_long_transaction.push_back(undo_record());
    for (char *record : of_long_transaction) {
        if (!is_open)
            free(record);
    }
    if (!is_open)
        of_long_transaction.clear();
}

// Each stream keeps its frames since the last key frame, for viewers that come. Streams begin until tick 22; some end.
static std::vector<char *> frames_of[16];

OWN static char *receive_frame(bool is_key)
{
    return xmalloc(is_key ? 40000 + next_random(30000) : 2000 + next_random(7000));
}

static void drop_frames(std::vector<char *> &frames)
{
    for (char *frame : frames)
        free(frame);
    frames.clear();
}

static void frames_since_key(int tick)
{
    for (int stream = 0; stream < 16; stream++) {
        bool is_on = tick >= stream * 3 / 2 && (stream % 5 != 2 || tick < 20 + stream);
        if (!is_on)
            drop_frames(frames_of[stream]);
        for (int i = 0; is_on && i < 75; i++) {
            bool is_key = (tick * 75 + i) % (40 + stream * 14) == 0;
            if (is_key)
                drop_frames(frames_of[stream]);
            frames_of[stream].push_back(receive_frame(is_key));
        }
    }
}

// Equal strings of documents are kept once, and counted. The last document that has one frees it. More and more
// documents are open until tick 20; then their number wanders.
struct counted_string {
    unsigned n_users = 0;
    std::string text;
};
static std::unordered_map<unsigned, counted_string> counted;

OWN static void use_string(unsigned number)
{
    counted_string &found = counted[number];
    if (!found.n_users++)
        found.text.assign(200 + number % 600, 's');
}

static void counted_strings(int tick)
{
    static std::vector<std::vector<unsigned>> documents;
    size_t n_wanted = tick < 20 ? static_cast<size_t>(40 + tick * 8) : 180 + next_random(40);
    for (int i = 0; i < 30 || documents.size() > n_wanted; i++) {
        if (documents.empty())
            break;
        std::swap(documents[next_random(static_cast<unsigned>(documents.size()))], documents.back());
        for (unsigned number : documents.back()) {
            if (!--counted[number].n_users)
                counted.erase(number);
        }
        documents.pop_back();
    }
    while (documents.size() < n_wanted) {
        documents.emplace_back();
        for (int i = 0; i < 60; i++) {
            documents.back().push_back(i % 2 ? next_random(2000) : 2000 + next_random(2000000000));
            use_string(documents.back().back());
        }
    }
}

// Stacks of coroutines are used again and not given back: as many as ever ran at once, at most 170.
OWN static char *new_coroutine_stack()
{
    return xmalloc(64 << 10);
}

static void coroutine_stacks(int)
{
    static std::vector<char *> idle_stacks;
    for (int i = 0; i < 2; i++) {
        std::vector<char *> running;
        for (unsigned n = 20 + next_random(10) + std::min(140U, 1400 / (1 + next_random(200))); n > 0; n--) {
            if (idle_stacks.empty())
                idle_stacks.push_back(new_coroutine_stack());
            running.push_back(idle_stacks.back());
            idle_stacks.pop_back();
        }
        idle_stacks.insert(idle_stacks.end(), running.begin(), running.end());
    }
}

// A tree of leaves of 64 entries. 45,000 entries are imported until tick 15. Later as many come as go. A full leaf is
// split, and two small ones are joined.
struct leaf {
    std::vector<unsigned> keys;
    char *values;
};
static std::map<unsigned, leaf> leaves;

OWN static leaf &add_leaf(unsigned first)
{
    leaf &fresh = leaves[first];
    fresh.keys.reserve(64);
    fresh.values = xmalloc(64 * 120);
    return fresh;
}

static void insert_entry(unsigned key)
{
    auto at = leaves.upper_bound(key);
    leaf &found = leaves.empty() ? add_leaf(0) : std::prev(at)->second;
    found.keys.insert(std::lower_bound(found.keys.begin(), found.keys.end(), key), key);
    if (found.keys.size() < 64)
        return;
    leaf &right = add_leaf(found.keys[32]);
    right.keys.assign(found.keys.begin() + 32, found.keys.end());
    found.keys.resize(32);
}

static void remove_entry(unsigned key)
{
    auto at = std::prev(leaves.upper_bound(key));
    std::vector<unsigned> &keys = at->second.keys;
    keys.erase(std::lower_bound(keys.begin(), keys.end(), key));
    auto right = std::next(at);
    if (keys.size() > 24 || right == leaves.end() || keys.size() + right->second.keys.size() > 54)
        return;
    keys.insert(keys.end(), right->second.keys.begin(), right->second.keys.end());
    free(right->second.values);
    leaves.erase(right);
}

static void leaves_split(int tick)
{
    static std::vector<unsigned> entries;
    for (int i = 0; i < (tick < 15 ? 3000 : 1800); i++) {
        entries.push_back(next_random(2000000000));
        insert_entry(entries.back());
    }
    for (int i = 0; tick >= 15 && i < 1800; i++) {
        std::swap(entries[next_random(static_cast<unsigned>(entries.size()))], entries.back());
        remove_entry(entries.back());
        entries.pop_back();
    }
}

const program sound_games[] = {
    {"tiers_of_code", tiers_of_code, 2},         {"epochs_pass", epochs_pass, 0},
    {"vacuum_by_share", vacuum_by_share, 0},     {"regions_around_players", regions_around_players, 0},
    {"long_transactions", long_transactions, 0}, {"frames_since_key", frames_since_key, 0},
    {"counted_strings", counted_strings, 0},     {"coroutine_stacks", coroutine_stacks, 0},
    {"leaves_split", leaves_split, 0},           {nullptr, nullptr, 0},
};
