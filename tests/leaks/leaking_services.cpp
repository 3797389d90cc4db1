// SPDX-License-Identifier: MIT
//
// leaking_services.cpp - services that leak beside their sessions, caches, pools, logs, arenas and timers.
#include "paced.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

// Blocks live until `bound` newer ones exist.
static void keep_newest(std::deque<char *> &blocks, size_t bound)
{
    for (; blocks.size() > bound; blocks.pop_front())
        free(blocks.front());
}

// One user in six closes the window and never logs out.
static std::deque<char *> logged_in;
static std::vector<char *> abandoned;

OWN static char *create_session()
{
    return xmalloc(6000);
}

static void sessions_without_logout(int)
{
    for (int i = 0; i < 60; i++) {
        char *session = create_session();
        if (i % 6) {
            logged_in.push_back(session);
        } else {
            abandoned.push_back(session);
            lost(6000);
        }
    }
    keep_newest(logged_in, 400);
}

// Sessions expire, but the index of their tokens keeps the tokens.
static std::deque<char *> sessions;
static std::vector<char *> tokens;

OWN static char *index_token()
{
    return xmalloc(200);
}

static void tokens_of_expired_sessions(int)
{
    for (int i = 0; i < 300; i++) {
        sessions.push_back(xmalloc(2500));
        tokens.push_back(index_token());
        lost(200);
    }
    keep_newest(sessions, 1500);
}

// The cache frees the entries that it evicts, but not values that were moved to a block of their own.
struct entry {
    char *value;
    char *overflow;
};
static std::deque<entry> entries;

OWN static char *store_overflow()
{
    return xmalloc(16000);
}

static void evicted_without_overflow(int step)
{
    for (int i = 0; i < 40; i++)
        entries.push_back({xmalloc(7000), (step + i) % 10 ? nullptr : store_overflow()});
    for (; entries.size() > 900; entries.pop_front()) {
        free(entries.front().value);
        if (entries.front().overflow)
            lost(16000);
    }
}

// A pool replaces broken connections, and forgets their buffers.
static char *pool[200];

OWN static char *connect_to_database()
{
    return xmalloc(16000);
}

static void broken_connections(int)
{
    for (int i = 0; i < 80; i++) {
        char *&connection = pool[next_random(200)];
        if (!connection || !next_random(20)) {
            if (connection)
                lost(16000);
            connection = connect_to_database();
        } else if (!next_random(8)) {
            free(connection);
            connection = connect_to_database();
        }
    }
}

// Each thread registers its log buffer, and ends without removing it.
static std::mutex registry_lock;
static std::vector<char *> registry;

OWN static void register_log_buffer()
{
    std::lock_guard<std::mutex> guard(registry_lock);
    registry.push_back(xmalloc(24000));
    lost(24000);
}

static void log_buffers_of_threads(int)
{
    for (int i = 0; i < 3; i++)
        std::thread(register_log_buffer).join();
}

// A request's arena is freed at its end, unless an error ends it.
OWN static char *new_arena_chunk()
{
    return xmalloc(32000);
}

static void arenas_of_errors(int)
{
    for (int i = 0; i < 60; i++) {
        char *chunk = new_arena_chunk();
        if (i % 30)
            free(chunk);
        else
            lost(32000);
    }
}

// The rules of a plugin are compiled again at each reload, and those of its last version stay.
static std::vector<std::vector<char *>> versions;

OWN static char *compile_rule()
{
    return xmalloc(4000);
}

static void plugin_reloaded(int step)
{
    if (step % 20)
        return;
    versions.emplace_back();
    for (int i = 0; i < 300; i++) {
        versions.back().push_back(compile_rule());
        lost(4000);
    }
}

// A slow leak beside a large cache that is always full.
static std::deque<char *> pages;
static std::vector<char *> cookies;

OWN static char *fetch_page()
{
    return xmalloc(16000);
}

OWN static char *parse_cookie()
{
    return xmalloc(700);
}

static void cookies_beside_page_cache(int)
{
    for (int i = 0; i < 80; i++)
        pages.push_back(fetch_page());
    keep_newest(pages, 2500);
    for (int i = 0; i < 90; i++) {
        cookies.push_back(parse_cookie());
        lost(700);
    }
}

// One function serves a bounded cache and the caller that loses one object in twelve.
static std::deque<char *> objects;

OWN static char *read_object()
{
    return xmalloc(5000);
}

static void object_of_cache_lost(int)
{
    for (int i = 0; i < 144; i++) {
        char *object = read_object();
        if (i % 12)
            objects.push_back(object);
        else
            lost(5000);
    }
    keep_newest(objects, 3000);
}

// An outage in each second loses what was to be sent.
OWN static char *prepare_delivery()
{
    return xmalloc(9000);
}

static void deliveries_of_outages(int step)
{
    for (int i = 0; i < 40; i++) {
        char *delivery = prepare_delivery();
        if (step % 50 < 40)
            free(delivery);
        else
            lost(9000);
    }
}

// The master waits, and its worker keeps a trace of each request.
static std::vector<char *> traces;

OWN static char *keep_trace()
{
    return xmalloc(3000);
}

static void worker_keeps_traces(int step)
{
    pid_t worker = step ? 0 : fork();
    if (worker > 0) {
        int status;
        waitpid(worker, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    for (int i = 0; i < 22; i++) {
        traces.push_back(keep_trace());
        lost(3000);
    }
}

// The service warms up to 16 MB, and loses buffers of the same kind from then on.
static std::vector<char *> buffers;

OWN static char *new_buffer()
{
    return xmalloc(8000);
}

static void leak_after_warm_up(int step)
{
    for (int i = 0; step < 60 && i < 33; i++)
        buffers.push_back(new_buffer());
    for (int i = 0; step >= 60 && i < 20; i++) {
        char *buffer = new_buffer();
        if (i % 2)
            free(buffer);
        else
            lost(8000);
    }
}

// Rows are staged and written in batches. One in ten is not written, and stays.
static std::deque<char *> staged;

OWN static char *stage_row()
{
    return xmalloc(3500);
}

static void rows_stay_behind(int step)
{
    for (int i = 0; i < 160; i++)
        staged.push_back(stage_row());
    if (step % 40 != 39)
        return;
    for (size_t i = 0; i < staged.size(); i++) {
        if (i % 10)
            free(staged[i]);
        else
            lost(3500);
    }
    staged.clear();
}

// Each new combination of labels is a series, and their number has no bound.
static std::unordered_map<std::string, std::vector<double>> series;

OWN static void add_series(const std::string &labels)
{
    series[labels].resize(400);
    lost(3200);
}

static void series_of_labels(int step)
{
    for (int i = 0; i < 20; i++)
        add_series("path=/users/" + std::to_string(step * 20 + i));
}

// The context of a request holds a callback that holds the context.
struct context {
    std::function<void()> resume;
    char data[4000];
};

OWN static std::shared_ptr<context> make_context()
{
    auto fresh = std::make_shared<context>();
    fresh->data[0] = 1;
    return fresh;
}

static void contexts_of_callbacks(int)
{
    for (int i = 0; i < 64; i++) {
        std::shared_ptr<context> request = make_context();
        if (i % 4 == 0) {
            request->resume = [request] { request->data[0]++; };
            lost(sizeof(context) + 16);
        }
    }
}

// Timers fire after 16 steps. Those of one slot of the wheel never do.
static std::vector<char *> wheel[16];

OWN static char *arm_timer()
{
    return xmalloc(5200);
}

static void timers_of_a_dead_slot(int step)
{
    for (char *timer : wheel[step % 15])
        free(timer);
    wheel[step % 15].clear();
    for (int i = 0; i < 160; i++) {
        unsigned slot = next_random(16);
        wheel[slot].push_back(arm_timer());
        if (slot == 15)
            lost(5200);
    }
}

// Memory is lost in proportion to a load that swings between nothing and twice the mean.
OWN static char *open_transaction()
{
    return xmalloc(4500);
}

static void transactions_by_load(int step)
{
    int load = static_cast<int>(60 * (1 + sin(step / 150.0 * 2 * M_PI)));
    for (int i = 0; i < load; i++) {
        char *transaction = open_transaction();
        if (i % 4)
            free(transaction);
        else
            lost(4500);
    }
}

// Answers are cached for 50 steps. Those for unknown names never expire, and they are few.
static std::deque<char *> answers;

OWN static char *cache_answer()
{
    return xmalloc(1300);
}

static void answers_for_unknown_names(int)
{
    for (int i = 0; i < 100; i++) {
        char *answer = cache_answer();
        if (i % 4)
            answers.push_back(answer);
        else
            lost(1300);
    }
    keep_newest(answers, 75 * 50);
}

// Spans leak while a debugging flag is set: in the first and in the last third.
OWN static char *attach_span()
{
    return xmalloc(2600);
}

static void spans_while_debugged(int step)
{
    bool is_debugged = step < 100 || step >= 200;
    for (int i = 0; i < 90; i++) {
        char *span = attach_span();
        if (is_debugged && i % 3 == 0)
            lost(2600);
        else
            free(span);
    }
}

// A template of 700 kB is loaded again in every twelfth step.
static std::vector<char *> templates;

OWN static char *load_template()
{
    return xmalloc(700000);
}

static void templates_loaded_again(int step)
{
    if (step % 12)
        return;
    templates.push_back(load_template());
    lost(700000);
}

extern const struct paced_program leaking_services[] = {
    {"sessions_without_logout", sessions_without_logout, nullptr},
    {"tokens_of_expired_sessions", tokens_of_expired_sessions, nullptr},
    {"evicted_without_overflow", evicted_without_overflow, nullptr},
    {"broken_connections", broken_connections, nullptr},
    {"log_buffers_of_threads", log_buffers_of_threads, nullptr},
    {"arenas_of_errors", arenas_of_errors, nullptr},
    {"plugin_reloaded", plugin_reloaded, nullptr},
    {"cookies_beside_page_cache", cookies_beside_page_cache, nullptr},
    {"object_of_cache_lost", object_of_cache_lost, nullptr},
    {"deliveries_of_outages", deliveries_of_outages, nullptr},
    {"worker_keeps_traces", worker_keeps_traces, nullptr},
    {"leak_after_warm_up", leak_after_warm_up, nullptr},
    {"rows_stay_behind", rows_stay_behind, nullptr},
    {"series_of_labels", series_of_labels, nullptr},
    {"contexts_of_callbacks", contexts_of_callbacks, nullptr},
    {"timers_of_a_dead_slot", timers_of_a_dead_slot, nullptr},
    {"transactions_by_load", transactions_by_load, nullptr},
    {"answers_for_unknown_names", answers_for_unknown_names, nullptr},
    {"spans_while_debugged", spans_while_debugged, nullptr},
    {"templates_loaded_again", templates_loaded_again, nullptr},
    {},
};
