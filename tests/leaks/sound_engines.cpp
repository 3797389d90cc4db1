// SPDX-License-Identifier: MIT
//
// sound_engines.cpp - memory of databases, interpreters and editors that grows for a time, and is not lost.
#include "programs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

// Blocks of a file, read on demand: a few often, most once. The cache is full at tick 30; then a clock hand evicts.
struct cached_block {
    unsigned number;
    bool was_used;
    size_t n_bytes;
    void *data;
};
static std::vector<cached_block> clock_face;
static std::unordered_map<unsigned, size_t> block_places;
static size_t clock_hand, n_cached_bytes;

OWN static void *read_block(size_t n_bytes)
{
    void *data;
    if (posix_memalign(&data, 512, n_bytes))
        abort();
    return memset(data, 1, n_bytes);
}

static void evict_block()
{
    for (;; clock_hand++) {
        clock_hand %= clock_face.size();
        cached_block &at = clock_face[clock_hand];
        if (!at.was_used)
            break;
        at.was_used = false;
    }
    cached_block gone = clock_face[clock_hand];
    free(gone.data);
    n_cached_bytes -= gone.n_bytes;
    block_places.erase(gone.number);
    clock_face[clock_hand] = clock_face.back();
    clock_face.pop_back();
    if (clock_hand < clock_face.size())
        block_places[clock_face[clock_hand].number] = clock_hand;
}

static void block_cache_clock(int)
{
    for (int i = 0; i < 120; i++) {
        unsigned number = next_random(3) ? next_random(200) : 200 + next_random(1000000);
        auto found = block_places.find(number);
        if (found != block_places.end()) {
            clock_face[found->second].was_used = true;
            continue;
        }
        size_t n_bytes = 4096 + next_random(7) * 4096;
        block_places[number] = clock_face.size();
        clock_face.push_back({number, false, n_bytes, read_block(n_bytes)});
        for (n_cached_bytes += n_bytes; n_cached_bytes > 22u << 20;)
            evict_block();
    }
}

// A log-structured tree. A full memtable becomes a table of level 0, four of them one of level 1, and five of those are
// merged into level 2, which stops growing when all keys are in it.
static std::vector<char *> memtable;
static std::vector<std::vector<char>> levels[3];

OWN static void extend_memtable()
{
    memtable.push_back(xmalloc(64 << 10));
}

OWN static void build_index(int level, size_t n_bytes)
{
    levels[level].emplace_back(n_bytes);
}

static void merge_level(int level, size_t most, size_t n_bytes)
{
    if (levels[level].size() < most)
        return;
    levels[level].clear();
    build_index(level + 1, n_bytes);
}

static void lsm_levels(int)
{
    static size_t n_in_level_2;
    for (int i = 0; i < 40; i++) {
        extend_memtable();
        if (memtable.size() < 16)
            continue;
        for (char *chunk : memtable)
            free(chunk);
        memtable.clear();
        build_index(0, 90000);
        merge_level(0, 4, 300000);
        if (levels[1].size() < 5)
            continue;
        n_in_level_2 = std::min<size_t>(n_in_level_2 + 1500000, 5000000);
        std::vector<std::vector<char>> merged_before;
        merged_before.swap(levels[2]);
        merge_level(1, 5, n_in_level_2);
    }
}

// A database in memory. Its user loads all rows until tick 14. Later they are updated, deleted and inserted again. It
// rehashes some buckets with each operation, from one table to another of twice the size.
struct row {
    row *next;
    unsigned key;
    char *value;
};
static std::vector<row *> tables[2] = {std::vector<row *>(64), {}};
static size_t n_rows, n_rehashed;

OWN static char *store_value()
{
    return xmalloc(200 + next_random(900));
}

OWN static void double_buckets()
{
    tables[1].resize(tables[0].size() * 2);
    n_rehashed = 0;
}

static void rehash_some()
{
    for (int i = 0; i < 4 && !tables[1].empty(); i++) {
        while (row *moved = tables[0][n_rehashed]) {
            tables[0][n_rehashed] = moved->next;
            row *&into = tables[1][moved->key % tables[1].size()];
            moved->next = into;
            into = moved;
        }
        if (++n_rehashed < tables[0].size())
            continue;
        tables[0].swap(tables[1]);
        std::vector<row *>().swap(tables[1]);
    }
}

static row **find_row(unsigned key)
{
    for (auto &table : tables) {
        for (row **at = table.empty() ? nullptr : &table[key % table.size()]; at && *at; at = &(*at)->next) {
            if ((*at)->key == key)
                return at;
        }
    }
    return nullptr;
}

OWN static void set_row(unsigned key)
{
    rehash_some();
    if (row **found = find_row(key)) {
        free((*found)->value);
        (*found)->value = store_value();
        return;
    }
    std::vector<row *> &table = tables[!tables[1].empty()];
    row *&bucket = table[key % table.size()];
    bucket = new row{bucket, key, store_value()};
    if (++n_rows > tables[0].size() && tables[1].empty())
        double_buckets();
}

static void delete_row(unsigned key)
{
    row **found = find_row(key);
    if (!found)
        return;
    row *gone = *found;
    *found = gone->next;
    free(gone->value);
    delete gone;
    n_rows--;
}

static void data_set_loaded(int tick)
{
    for (unsigned i = 0; i < 1500; i++) {
        if (tick < 14)
            set_row(static_cast<unsigned>(tick) * 1500 + i);
        else if (i % 5)
            set_row(next_random(21000));
        else
            delete_row(next_random(21000));
    }
}

// Results are remembered in two generations. When the young one has 1100 the old one is dropped and becomes the young.
static std::unordered_map<unsigned, std::string> young, old;

OWN static void compute_result(unsigned key)
{
    young[key] = std::string(2500 + key % 3000, 'r');
}

static void semispace_memo(int)
{
    for (int i = 0; i < 190; i++) {
        unsigned key = next_random(2) ? next_random(100) : 100 + next_random(20000);
        auto found = old.find(key);
        if (found != old.end()) {
            young[key] = std::move(found->second);
            old.erase(found);
        } else if (!young.count(key)) {
            compute_result(key);
        }
        if (young.size() >= 1100) {
            old = std::move(young);
            young.clear();
        }
    }
}

// Glyphs are drawn into pages. When 30 pages are full, all glyphs are dropped, and those in use are drawn anew.
static std::vector<char *> glyph_pages;
static std::map<unsigned, char *> glyphs;
static size_t n_page_left;

OWN static void add_glyph_page()
{
    glyph_pages.push_back(xmalloc(256 << 10));
    n_page_left = 256 << 10;
}

static void draw_glyph(unsigned code)
{
    if (glyphs.count(code))
        return;
    size_t n_bytes = 600 + code * 31 % 2000;
    if (n_bytes > n_page_left && glyph_pages.size() == 30) {
        for (char *page : glyph_pages)
            free(page);
        glyph_pages.clear();
        glyphs.clear();
        n_page_left = 0;
    }
    if (n_bytes > n_page_left)
        add_glyph_page();
    n_page_left -= n_bytes;
    glyphs[code] = glyph_pages.back() + n_page_left;
}

static void glyph_atlas_wiped(int tick)
{
    for (unsigned i = 0, script = static_cast<unsigned>(tick) / 3 * 1000; i < 900; i++)
        draw_glyph(i % 2 ? next_random(600) : script + next_random(2000));
}

// 250 open documents in gap buffers, which grow by half and shrink to a half. One is closed now and then.
struct gap_buffer {
    char *text;
    size_t n_used, n_room;
};
static gap_buffer documents[250];

OWN static void resize_gap(gap_buffer &d, size_t n_room)
{
    d.text = static_cast<char *>(realloc(d.text, n_room));
    d.n_room = n_room;
}

static void gap_buffers(int)
{
    for (int i = 0; i < 4000; i++) {
        gap_buffer &d = documents[next_random(250)];
        if (!d.text || !next_random(400)) {
            d.n_used = 5000 + next_random(30000);
            resize_gap(d, d.n_used + 2000);
        }
        if (next_random(60000) > d.n_used)
            d.n_used += next_random(3000);
        else
            d.n_used -= std::min<size_t>(d.n_used, next_random(3000));
        if (d.n_used > d.n_room)
            resize_gap(d, d.n_used + d.n_used / 2);
        else if (d.n_used < d.n_room / 4)
            resize_gap(d, d.n_room / 2);
    }
}

// A compiler keeps the arenas of its units until it links, which is after 6 to 11 ticks.
static std::vector<char *> arenas;

OWN static void extend_arena()
{
    arenas.push_back(xmalloc(16 << 10));
}

static void arenas_until_link(int tick)
{
    static int next_link = 8;
    if (tick == next_link) {
        for (char *block : arenas)
            free(block);
        arenas.clear();
        next_link = tick + 6 + static_cast<int>(next_random(6));
    }
    for (unsigned n = 40 + next_random(50); n > 0; n--)
        extend_arena();
}

// Plans of the queries of a program, which has 900; some are rare.
struct plan {
    plan *left, *right;
    char text[340];
};
static plan *plans[900];

OWN static plan *build_plan(unsigned n_nodes)
{
    if (!n_nodes)
        return nullptr;
    plan *fresh = new plan();
    fresh->left = build_plan((n_nodes - 1) / 2);
    fresh->right = build_plan(n_nodes - 1 - (n_nodes - 1) / 2);
    return fresh;
}

static void plans_of_fixed_queries(int)
{
    for (int i = 0; i < 250; i++) {
        unsigned query = next_random(900) * next_random(900) / 900;
        if (!plans[query])
            plans[query] = build_plan(6 + query % 25);
    }
}

// A generational collector. What lives longer than a tick is old; old garbage is freed when the old objects have become
// 1.7 times as many as were alive at the last time. Objects live for 20 ticks or less.
static std::vector<std::pair<int, char *>> old_objects;
static size_t n_before_major = 2500;

OWN static char *new_object()
{
    return xmalloc(800 + next_random(2200));
}

static void collect_old(int tick)
{
    size_t n_alive = 0;
    for (auto &object : old_objects) {
        if (object.first > tick)
            old_objects[n_alive++] = object;
        else
            free(object.second);
    }
    old_objects.resize(n_alive);
    n_before_major = std::max<size_t>(2500, n_alive * 17 / 10);
}

static void generational_collector(int tick)
{
    for (int i = 0; i < 3000; i++) {
        char *object = new_object();
        if (i % 10)
            free(object);
        else
            old_objects.emplace_back(tick + 1 + static_cast<int>(next_random(20)), object);
        if (old_objects.size() >= n_before_major)
            collect_old(tick);
    }
}

const program sound_engines[] = {
    {"block_cache_clock", block_cache_clock, 0},
    {"lsm_levels", lsm_levels, 0},
    {"data_set_loaded", data_set_loaded, 0},
    {"semispace_memo", semispace_memo, 0},
    {"glyph_atlas_wiped", glyph_atlas_wiped, 0},
    {"gap_buffers", gap_buffers, 0},
    {"arenas_until_link", arenas_until_link, 0},
    {"plans_of_fixed_queries", plans_of_fixed_queries, 0},
    {"generational_collector", generational_collector, 0},
    {nullptr, nullptr, 0},
};
