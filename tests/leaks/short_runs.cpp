// SPDX-License-Identifier: MIT
//
// short_runs.cpp - programs that end after two to eight ticks. Some leak all the time; others are in balance from the
// beginning, or fill something that has a bound.
#include "paced.h"

#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// ---- that leak ----

// Jobs are removed from the queue when they are done, but their handles stay in a map.
static std::map<unsigned, char *> handles;

OWN static void keep_handle(unsigned job)
{
    handles[job] = xmalloc(6000);
    lost(6000);
}

static void handles_of_jobs(int)
{
    static unsigned job;
    for (int i = 0; i < 60; i++) {
        char *queued = xmalloc(3000);
        keep_handle(job++);
        free(queued);
    }
}

// A task's completion holds the task, and the task its completion.
namespace
{
struct task {
    std::function<void()> done;
    char input[4000];
};
} // namespace

OWN static std::shared_ptr<task> new_task()
{
    auto fresh = std::make_shared<task>();
    fresh->done = [fresh] { fresh->input[0]++; };
    lost(sizeof(task) + 16);
    return fresh;
}

static void tasks_hold_themselves(int)
{
    for (int i = 0; i < 40; i++)
        new_task()->done();
}

// Counters are kept for each user, and each user has a new id for each visit.
static std::unordered_map<std::string, std::vector<long>> counters;

OWN static void count_visit_of(const std::string &user)
{
    counters[user].resize(150);
    lost(150 * sizeof(long));
}

static void counters_by_visit(int step)
{
    for (int i = 0; i < 100; i++)
        count_visit_of("visitor/" + std::to_string(step) + "/" + std::to_string(next_random(1u << 30)));
}

// A decoder drops one picture in four without a free.
OWN static char *decode_picture()
{
    return xmalloc(300000);
}

static void pictures_dropped(int)
{
    static unsigned n;
    for (int i = 0; i < 4; i++) {
        char *picture = decode_picture();
        if (n++ % 4)
            free(picture);
        else
            lost(300000);
    }
}

// Lines of a log are kept for a reader that never comes. Few and small: some three samples.
static std::deque<std::string> lines;

OWN static void keep_line(int step)
{
    lines.emplace_back(900, static_cast<char>('a' + step % 26));
    lost(901);
}

static void lines_without_reader(int step)
{
    for (int i = 0; i < 30; i++)
        keep_line(step);
}

// ---- that do not leak ----

// 12 MB of configuration are read in the first three steps.
static std::vector<std::string> settings;

OWN static void read_settings()
{
    for (int i = 0; i < 1000; i++)
        settings.emplace_back(4000, 's');
}

static void configuration_at_start(int step)
{
    if (step < 3)
        read_settings();
}

// Sessions live for some 100 ms: their number is in balance after the first tick.
static std::deque<char *> sessions;

OWN static void open_session()
{
    sessions.push_back(xmalloc(5000));
}

static void sessions_in_balance(int)
{
    for (int i = 0; i < 100; i++)
        open_session();
    while (sessions.size() > 450 + next_random(100)) {
        free(sessions.front());
        sessions.pop_front();
    }
}

// The last 1,500 events are kept. The ring is full after five steps.
static std::string events[1500];

OWN static void store_event(unsigned at)
{
    events[at] = std::string(3000 + next_random(1000), 'e');
}

static void ring_of_events(int)
{
    static unsigned n;
    for (int i = 0; i < 300; i++)
        store_event(n++ % 1500);
}

// Rows are collected and written every 7 steps.
static std::vector<char *> rows;

OWN static void collect_row()
{
    rows.push_back(xmalloc(2500));
}

static void rows_in_batches(int step)
{
    for (int i = 0; i < 250; i++)
        collect_row();
    if (step % 7 == 6) {
        for (char *row : rows)
            free(row);
        rows.clear();
    }
}

// 40 templates are compiled when they are first used; most are used at once.
static std::map<unsigned, char *> templates;

OWN static char *compile_template()
{
    return xmalloc(200000);
}

static void templates_compiled_once(int)
{
    for (int i = 0; i < 60; i++) {
        char *&compiled = templates[next_random(40)];
        if (!compiled)
            compiled = compile_template();
    }
}

// A cache of 20,000 entries that a short run cannot fill: it grows to the end, and no profile can tell that it stops.
static std::unordered_map<unsigned, std::string> thumbnails;

OWN static void cache_thumbnail(unsigned id)
{
    thumbnails.emplace(id, std::string(3000, 't'));
}

static void cache_still_fills(int)
{
    for (int i = 0; i < 80 && thumbnails.size() < 20000; i++)
        cache_thumbnail(next_random(1u << 30));
}

const paced_program short_runs[] = {
    {"handles_of_jobs", handles_of_jobs, nullptr},
    {"tasks_hold_themselves", tasks_hold_themselves, nullptr},
    {"counters_by_visit", counters_by_visit, nullptr},
    {"pictures_dropped", pictures_dropped, nullptr},
    {"lines_without_reader", lines_without_reader, nullptr},
    {"configuration_at_start", configuration_at_start, nullptr},
    {"sessions_in_balance", sessions_in_balance, nullptr},
    {"ring_of_events", ring_of_events, nullptr},
    {"rows_in_batches", rows_in_batches, nullptr},
    {"templates_compiled_once", templates_compiled_once, nullptr},
    {"cache_still_fills", cache_still_fills, nullptr},
    {nullptr, nullptr, nullptr},
};
