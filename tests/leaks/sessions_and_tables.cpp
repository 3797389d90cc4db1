// SPDX-License-Identifier: MIT
//
// sessions_and_tables.cpp - connections, sessions, caches and tables of servers. Some leak, others are in balance.
#include "programs.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

// ---- that leak ----

// Closed connections leave the table. One in 12 times out, and its entry stays.
static std::unordered_map<int, char *> table;
static std::vector<int> open_ids;

OWN static void add_connection(int id)
{
    table[id] = xmalloc(14000);
}

static void timeout_keeps_entry(int tick)
{
    for (int i = 0; i < 300; i++) {
        int id = tick * 300 + i;
        add_connection(id);
        open_ids.push_back(id);
        if (open_ids.size() <= 150)
            continue;
        int &place = open_ids[next_random(150)];
        if (next_random(12)) {
            free(table[place]);
            table.erase(place);
        }
        place = open_ids.back();
        open_ids.pop_back();
    }
}

// The buffer of a log line is lost when its request fails; one in 50 fails.
OWN static char *begin_log_line()
{
    return xmalloc(6000);
}

static void log_line_on_error(int)
{
    for (int i = 0; i < 2000; i++) {
        char *line = begin_log_line();
        if (next_random(50))
            free(line);
    }
}

// A parser frees the tree that it returns. On malformed input it loses the node that it was about to link.
struct tree_node {
    tree_node *parent;
    char text[592];
};

OWN static tree_node *new_tree_node(tree_node *parent)
{
    tree_node *fresh = static_cast<tree_node *>(static_cast<void *>(xmalloc(sizeof(tree_node))));
    fresh->parent = parent;
    return fresh;
}

static void malformed_input(int)
{
    for (int input = 0; input < 3300; input++) {
        tree_node *last = nullptr;
        for (unsigned i = 0, n = 4 + next_random(16); i < n; i++)
            last = new_tree_node(last);
        if (!next_random(5))
            last = last->parent;
        while (last)
            free(std::exchange(last, last->parent));
    }
}

// Each reconnect subscribes to all topics again.
static std::vector<std::function<char()>> handlers[30];

OWN static void register_handlers()
{
    char context[1200] = "topic";
    for (auto &topic : handlers)
        topic.push_back([context] { return context[0]; });
}

static void handlers_by_reconnect(int)
{
    for (unsigned n = next_random(21); n > 0; n--)
        register_handlers();
}

// Ids of requests are interned as if they were names.
static std::unordered_map<std::string, unsigned> symbols;

OWN static unsigned intern_symbol(const std::string &text)
{
    return symbols.emplace(text, symbols.size()).first->second;
}

static void intern_unique_ids(int tick)
{
    for (int i = 0; i < 3000; i++)
        intern_symbol("request-id/00000000-0000-0000-0000-" + std::to_string(tick * 3000 + i));
}

// Sessions end after five ticks. The sweep goes through the users' sessions and forgets those of guests, one in 12.
struct user_session {
    int begun;
    bool guest;
    char *state;
};
static std::list<user_session> store;

OWN static void create_session(int tick, bool guest)
{
    store.push_back({tick, guest, xmalloc(9000)});
}

static void sweep_misses_guests(int tick)
{
    for (auto at = store.begin(); at != store.end();) {
        if (at->guest || at->begun > tick - 5) {
            ++at;
            continue;
        }
        free(at->state);
        at = store.erase(at);
    }
    for (int i = 0; i < 400; i++)
        create_session(tick, !next_random(12));
}

// Points are appended to 30 series, to some more often. A full series is grown by half.
static double *points[30];
static size_t n_points[30], n_room[30];

OWN static void append_point(size_t at)
{
    if (n_points[at] == n_room[at]) {
        n_room[at] += n_room[at] / 2 + 64;
        points[at] = static_cast<double *>(realloc(points[at], n_room[at] * sizeof(double)));
    }
    points[at][n_points[at]++] = 1.5;
}

static void series_by_realloc(int)
{
    for (int i = 0; i < 40000; i++)
        append_point(std::min(next_random(30), next_random(30)));
}

// A request that is retried holds a callback, which holds the request; one in 20 is.
struct request_context {
    std::function<size_t()> on_retry;
    char headers[5000];
};

OWN static std::shared_ptr<request_context> make_context()
{
    return std::make_shared<request_context>();
}

static void cycle_when_retried(int)
{
    for (int i = 0; i < 1000; i++) {
        auto context = make_context();
        if (!next_random(20))
            context->on_retry = [context] { return sizeof context->headers; };
    }
}

// Statistics by user, where new users come at a constant rate.
struct user_stats {
    unsigned n_calls;
    char histogram[1796];
};
static std::map<unsigned, user_stats> stats;

OWN static user_stats &stats_of(unsigned user)
{
    return stats[user];
}

static void new_users_all_the_time(int tick)
{
    unsigned n_known = 200 * (static_cast<unsigned>(tick) + 1);
    for (unsigned i = 0; i < 200; i++) {
        stats_of(n_known - 1 - i).n_calls++;
        for (int call = 0; call < 5; call++)
            stats_of(next_random(n_known)).n_calls++;
    }
}

// An arena is reset after 100 jobs. That frees its blocks, except the one that overflowed last.
static std::vector<char *> blocks;
static char *overflowed;

OWN static void arena_block()
{
    blocks.push_back(xmalloc(16384));
}

OWN static char *overflow_block()
{
    return xmalloc(64 << 10);
}

static void arena_keeps_overflow(int)
{
    for (int job = 0; job < 500; job++) {
        arena_block();
        if (!next_random(10)) {
            free(overflowed);
            overflowed = overflow_block();
        }
        if (job % 100 < 99)
            continue;
        for (char *block : blocks)
            free(block);
        blocks.clear();
        overflowed = nullptr;
    }
}

// Documents are opened, edited and closed. Closing frees the text, but not the history of those with a long one.
struct document {
    char *text;
    std::vector<char *> edits;
};
static document documents[60];

OWN static char *open_text()
{
    return xmalloc(20000 + next_random(60000));
}

OWN static char *record_edit()
{
    return xmalloc(200 + next_random(3000));
}

static void closed_with_history(int)
{
    for (int i = 0; i < 150; i++) {
        document &d = documents[next_random(60)];
        free(d.text);
        for (char *edit : d.edits) {
            if (d.edits.size() < 17)
                free(edit);
        }
        d.edits.clear();
        d.text = open_text();
        for (unsigned n = next_random(20); n > 0; n--)
            d.edits.push_back(record_edit());
    }
}

// Every message goes to the queue of each subscriber. At tick 6 one of them stops reading.
static std::deque<std::string> inboxes[16];

OWN static void deliver(std::deque<std::string> &inbox)
{
    inbox.emplace_back(1500, 'm');
}

static void subscriber_stops_reading(int tick)
{
    for (int i = 0; i < 250; i++) {
        for (auto &inbox : inboxes) {
            deliver(inbox);
            if (inbox.size() > 40 && (tick < 6 || &inbox != &inboxes[3]))
                inbox.pop_front();
        }
    }
}

// Every second tick the configuration is loaded anew. The old routes are freed, the rules compiled for them are not.
static std::vector<char *> routes;

OWN static void load_route()
{
    routes.push_back(xmalloc(12000));
}

OWN static void compile_rule()
{
    xmalloc(8000);
}

static void reload_keeps_rules(int tick)
{
    if (tick % 2)
        return;
    for (char *route : routes)
        free(route);
    routes.clear();
    for (int i = 0; i < 60; i++) {
        load_route();
        compile_rule();
    }
}

// ---- that do not ----

// Words of a language: few are frequent, and most of the 6000 have been seen after some ticks.
static std::map<unsigned, std::string> vocabulary;

OWN static void intern_word(unsigned number)
{
    vocabulary.try_emplace(number, 900, 'w');
}

static void intern_vocabulary(int)
{
    for (int i = 0; i < 2500; i++)
        intern_word(next_random(6000) * next_random(6000) / 6000);
}

// Two LRU caches that reach their capacity in a third and in two thirds of the run.
struct lru {
    std::list<std::pair<unsigned, char *>> order;
    std::unordered_map<unsigned, std::list<std::pair<unsigned, char *>>::iterator> places;
};
static lru lru_cache;

OWN static void lru_load(unsigned key)
{
    lru_cache.order.emplace_front(key, xmalloc(2000 + next_random(8000)));
    lru_cache.places[key] = lru_cache.order.begin();
}

static void lru_get(unsigned key, size_t capacity)
{
    auto found = lru_cache.places.find(key);
    if (found != lru_cache.places.end()) {
        lru_cache.order.splice(lru_cache.order.begin(), lru_cache.order, found->second);
        return;
    }
    lru_load(key);
    if (lru_cache.order.size() <= capacity)
        return;
    free(lru_cache.order.back().second);
    lru_cache.places.erase(lru_cache.order.back().first);
    lru_cache.order.pop_back();
}

static void lru_full_at_a_third(int)
{
    for (int i = 0; i < 200; i++)
        lru_get(next_random(1000000), 200 * 13);
}

static void lru_full_at_two_thirds(int)
{
    for (int i = 0; i < 110; i++)
        lru_get(next_random(1000000), 110 * 27);
}

// Open addressing: the table doubles at two thirds, until all 300,000 keys are in it at tick 20.
static std::vector<uint64_t> slots(1024);
static size_t n_keys;

static void place_key(std::vector<uint64_t> &into, uint64_t key)
{
    size_t at = key * 0x9e3779b97f4a7c15 >> 20;
    while (into[at % into.size()])
        at++;
    into[at % into.size()] = key;
}

OWN static void double_table()
{
    std::vector<uint64_t> fresh(slots.size() * 2);
    for (uint64_t key : slots) {
        if (key)
            place_key(fresh, key);
    }
    slots.swap(fresh);
}

static void table_doubles(int tick)
{
    for (int i = 0; tick < 20 && i < 15000; i++) {
        if (++n_keys * 3 > slots.size() * 2)
            double_table();
        place_key(slots, n_keys);
    }
}

// A history with two resolutions: ten ticks in detail, and six sums of five ticks each.
static std::deque<char *> detail, sums;

OWN static void keep_detail()
{
    detail.push_back(xmalloc(5000));
}

OWN static void keep_sum()
{
    sums.push_back(xmalloc(40000));
}

static void keep_newest(std::deque<char *> &from, size_t most)
{
    while (from.size() > most) {
        free(from.front());
        from.pop_front();
    }
}

static void history_of_two_resolutions(int tick)
{
    for (int i = 0; i < 120; i++)
        keep_detail();
    for (int i = 0; tick % 5 == 4 && i < 40; i++)
        keep_sum();
    keep_newest(detail, 1200);
    keep_newest(sums, 240);
}

// Bursts of jobs in one tick of four, by chance; workers do 350 a tick.
static std::deque<char *> pending;

OWN static void submit_job()
{
    pending.push_back(xmalloc(7000));
}

static void bursts_drain(int)
{
    unsigned n = next_random(4) ? 60 : 800;
    for (unsigned i = 0; i < n; i++)
        submit_job();
    keep_newest(pending, pending.size() > 350 ? pending.size() - 350 : 0);
}

// Six threads, one started every three ticks. Each keeps the first 160 buffers that it is done with.
static std::mutex &step_mutex = *new std::mutex; // these two outlive exit, for the threads that wait
static std::condition_variable &stepped = *new std::condition_variable;
static int current_step = -1, n_busy;

OWN static char *thread_cache_take(std::vector<char *> &cache)
{
    if (cache.empty())
        return xmalloc(12000);
    char *taken = cache.back();
    cache.pop_back();
    return taken;
}

static void cache_user(int first_step)
{
    static thread_local std::vector<char *> cache;
    for (int step = first_step;; step++) {
        std::unique_lock<std::mutex> lock(step_mutex);
        stepped.wait(lock, [step] { return current_step >= step; });
        lock.unlock();
        int age = step - first_step;
        std::vector<char *> used;
        for (int n = age < 8 ? 20 * (age + 1) : 100 + step * 37 % 60; n > 0; n--)
            used.push_back(thread_cache_take(cache));
        for (char *buffer : used) {
            if (cache.size() < 160)
                cache.push_back(buffer);
            else
                free(buffer);
        }
        lock.lock();
        n_busy--;
        stepped.notify_all();
    }
}

static void thread_local_caches(int tick)
{
    if (tick % 3 == 0 && tick < 18)
        std::thread(cache_user, tick).detach();
    std::unique_lock<std::mutex> lock(step_mutex);
    n_busy = std::min(tick / 3 + 1, 6);
    current_step = tick;
    stepped.notify_all();
    stepped.wait(lock, [] { return !n_busy; });
}

// A session lives for four ticks after its last use; a sweep every three ticks removes what is over.
struct timed_session {
    int used;
    char *state;
};
static std::vector<timed_session> timed;

OWN static void login(int tick)
{
    timed.push_back({tick, xmalloc(7000)});
}

static void sessions_with_ttl(int tick)
{
    for (int i = 0; i < 160; i++)
        login(tick);
    for (size_t i = timed.size() / 8; i > 0; i--)
        timed[next_random(static_cast<unsigned>(timed.size()))].used = tick;
    for (size_t i = 0; tick % 3 == 2 && i < timed.size();) {
        if (timed[i].used > tick - 4) {
            i++;
            continue;
        }
        free(timed[i].state);
        timed[i] = timed.back();
        timed.pop_back();
    }
}

// Statistics by user, of 2500 users in all.
OWN static user_stats &stats_of_member(unsigned user)
{
    return stats[user];
}

static void users_saturate(int)
{
    for (int i = 0; i < 300; i++)
        stats_of_member(next_random(2500)).n_calls++;
}

// An arena that is reset after 100 jobs. A tick has 37 jobs.
OWN static void job_block()
{
    blocks.push_back(xmalloc(4096 + next_random(60000)));
}

static void arena_reset(int tick)
{
    for (int i = 0; i < 37; i++) {
        for (unsigned n = next_random(8); n > 0; n--)
            job_block();
        if ((tick * 37 + i) % 100 < 99)
            continue;
        for (char *block : blocks)
            free(block);
        blocks.clear();
    }
}

// An index is built for a part of the data when it is first read. All parts have been read after 24 ticks.
static std::vector<std::vector<std::pair<uint64_t, uint64_t>>> parts;

OWN static void index_part()
{
    parts.emplace_back(1000 + next_random(3000));
}

static void index_built_lazily(int tick)
{
    for (unsigned n = tick < 24 ? 8 + next_random(8) : 0; n > 0; n--)
        index_part();
    for (auto &part : parts)
        part[0].first++;
}

const program leaking_sessions_and_tables[] = {
    {"timeout_keeps_entry", timeout_keeps_entry, 0},
    {"log_line_on_error", log_line_on_error, 0},
    {"malformed_input", malformed_input, 0},
    {"handlers_by_reconnect", handlers_by_reconnect, 0},
    {"intern_unique_ids", intern_unique_ids, 0},
    {"sweep_misses_guests", sweep_misses_guests, 0},
    {"series_by_realloc", series_by_realloc, 0},
    {"cycle_when_retried", cycle_when_retried, 0},
    {"new_users_all_the_time", new_users_all_the_time, 0},
    {"arena_keeps_overflow", arena_keeps_overflow, 0},
    {"closed_with_history", closed_with_history, 0},
    {"subscriber_stops_reading", subscriber_stops_reading, 0},
    {"reload_keeps_rules", reload_keeps_rules, 0},
    {nullptr, nullptr, 0},
};

const program sound_sessions_and_tables[] = {
    {"intern_vocabulary", intern_vocabulary, 0},
    {"lru_full_at_a_third", lru_full_at_a_third, 0},
    {"lru_full_at_two_thirds", lru_full_at_two_thirds, 0},
    {"table_doubles", table_doubles, 0},
    {"history_of_two_resolutions", history_of_two_resolutions, 0},
    {"bursts_drain", bursts_drain, 0},
    {"thread_local_caches", thread_local_caches, 0},
    {"sessions_with_ttl", sessions_with_ttl, 0},
    {"users_saturate", users_saturate, 0},
    {"arena_reset", arena_reset, 0},
    {"index_built_lazily", index_built_lazily, 0},
    {nullptr, nullptr, 0},
};
