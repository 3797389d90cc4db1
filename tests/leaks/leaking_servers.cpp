// SPDX-License-Identifier: MIT
//
// leaking_servers.cpp - leaks of servers and network libraries, modelled on public reports of such leaks.
#include "manifest_library.h"
#include "programs.h"

#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

// The archiver writes 420 events a tick. On average 500 come, and nothing holds the producer back.
static std::deque<std::unique_ptr<std::string>> unwritten;

OWN static void log_event()
{
    unwritten.push_back(std::make_unique<std::string>(300 + next_random(5600), 'e'));
}

static void archive()
{
    for (int i = 0; i < 420 && !unwritten.empty(); i++)
        unwritten.pop_front();
}

static void archiver_lags(int)
{
    for (unsigned n = 300 + next_random(401); n > 0; n--)
        log_event();
    std::thread(archive).join();
}

// Timers of requests fire once. Those of keepalive fire again and again, also after their connection was closed: the
// wheel does not look at `cancelled` when it arms a periodic timer anew.
struct timer {
    bool is_periodic, cancelled;
    char context[790];
};
static std::vector<timer *> wheel[4];

OWN static timer *arm_timer(int due, bool is_periodic)
{
    timer *fresh = static_cast<timer *>(calloc(1, sizeof(timer)));
    fresh->is_periodic = is_periodic;
    wheel[due % 4].push_back(fresh);
    return fresh;
}

static void keepalive_rearmed(int tick)
{
    std::vector<timer *> due;
    due.swap(wheel[tick % 4]);
    for (timer *t : due) {
        if (t->is_periodic)
            wheel[(tick + 1) % 4].push_back(t);
        else
            free(t);
    }
    for (int i = 0; i < 2500; i++)
        arm_timer(tick + 1 + i % 3, false);
    for (int i = 0; i < 350; i++)
        arm_timer(tick + 1, true)->cancelled = true;
}

// A detached thread for each connection. The state of its errors is in a table, and stays there when the thread ends.
static std::mutex &thread_mutex = *new std::mutex;
static std::condition_variable &thread_ended = *new std::condition_variable;
static std::unordered_map<int, char *> &error_states = *new std::unordered_map<int, char *>;
static int n_threads;

OWN static char *error_state_of(int connection)
{
    char *&state = error_states[connection];
    if (!state)
        state = xmalloc(20000);
    return state;
}

static void serve_detached(int connection)
{
    free(xmalloc(60000));
    std::lock_guard<std::mutex> lock(thread_mutex);
    if (connection % 2)
        error_state_of(connection)[1]++;
    n_threads--;
    thread_ended.notify_all();
}

static void detached_thread_state(int tick)
{
    for (int i = 0; i < 30; i++) {
        std::unique_lock<std::mutex> lock(thread_mutex);
        n_threads++;
        std::thread(serve_detached, tick * 30 + i).detach();
        thread_ended.wait(lock, [] { return n_threads < 8; });
    }
    std::unique_lock<std::mutex> lock(thread_mutex);
    thread_ended.wait(lock, [] { return !n_threads; });
}

// A query that gets no answer is sent to the next name server. The answer frees the last attempt only. In three
// outages, which have ended after tick 28, some queries need three attempts.
struct attempt {
    unsigned id;
    char packet[3000];
};

OWN static attempt *send_attempt(unsigned id)
{
    attempt *fresh = new attempt;
    fresh->id = id;
    return fresh;
}

static attempt *in_flight[150];

static void resolver_outages(int tick)
{
    bool is_outage = (tick >= 11 && tick <= 13) || (tick >= 19 && tick <= 22) || tick == 27 || tick == 28;
    for (unsigned i = 0; i < 600; i++) {
        attempt *&slot = in_flight[next_random(150)];
        delete slot;
        slot = send_attempt(i);
        for (int retry = 0; is_outage && i % 5 == 0 && retry < 2; retry++)
            slot = send_attempt(i);
    }
}

// Every second tick the hosts are read anew. The loop sets `line` to NULL for each line, and only the last is freed.
static std::string hosts;

OWN static size_t read_hosts()
{
    FILE *file = fmemopen(&hosts[0], hosts.size(), "r");
    char *line = nullptr;
    size_t n_room = 0, n_bytes = 0;
    for (ssize_t n; file && (n = getline(&line, &n_room, file)) > 0; n_bytes += static_cast<size_t>(n)) {
        line = nullptr;
        n_room = 0;
    }
    free(line);
    fclose(file);
    return n_bytes;
}

static void getline_per_host(int tick)
{
    for (int i = 0; !tick && i < 330; i++)
        hosts += std::string(200 + next_random(2600), 'h') + '\n';
    if (tick % 2)
        read_hosts();
}

// A connection is checked out of a pool and given back after its query. One query in 100 fails and returns early.
static std::vector<char *> idle_connections;

OWN static char *create_connection()
{
    return xmalloc(24000);
}

static char *check_out()
{
    if (idle_connections.empty())
        return create_connection();
    char *connection = idle_connections.back();
    idle_connections.pop_back();
    return connection;
}

static void pool_loses_connections(int)
{
    for (int batch = 0; batch < 30; batch++) {
        char *busy[40];
        for (char *&connection : busy)
            connection = check_out();
        for (char *connection : busy) {
            if (next_random(100))
                idle_connections.push_back(connection);
        }
    }
}

// All classes of requests format headers with one function. The class OPTIONS, one in 20, forgets the longest header.
// It comes from a page that is not open in every tick.
OWN __attribute__((format(printf, 1, 2))) static char *format_header(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    char *text = nullptr;
    if (vasprintf(&text, format, values) < 0)
        text = nullptr;
    va_end(values);
    return text;
}

OWN static void serve_get(int n)
{
    char *length = format_header("Content-Length: %d", n), *etag = format_header("ETag: %0900d", n);
    free(length);
    free(etag);
}

OWN static void serve_options(int n)
{
    char *origin = format_header("Access-Control-Allow-Origin: %0300d", n);
    format_header("Access-Control-Allow-Headers: %01900d", n);
    free(origin);
}

static void options_requests(int tick)
{
    for (int i = 0; i < 4000; i++) {
        if (tick % 4 < 3 && i % 20 == 0)
            serve_options(i);
        else
            serve_get(i);
    }
}

// Flows expire three ticks after the reply. A flow without a reply is in the table only. One flow in 25 has none, and
// in two ticks of six, when somebody scans the ports, one in four.
struct flow {
    unsigned key;
    flow *next_in_bucket;
    char counters[470];
};
static flow *flow_buckets[4096];
static std::deque<std::pair<int, unsigned>> answered;

OWN static void add_flow(unsigned key)
{
    flow *fresh = static_cast<flow *>(calloc(1, sizeof(flow)));
    fresh->key = key;
    fresh->next_in_bucket = flow_buckets[key % 4096];
    flow_buckets[key % 4096] = fresh;
}

static void remove_flow(unsigned key)
{
    flow **at = &flow_buckets[key % 4096];
    while ((*at)->key != key)
        at = &(*at)->next_in_bucket;
    flow *gone = *at;
    *at = gone->next_in_bucket;
    free(gone);
}

static void half_open_flows(int tick)
{
    for (; !answered.empty() && answered.front().first <= tick - 3; answered.pop_front())
        remove_flow(answered.front().second);
    for (unsigned i = 0; i < 4400; i++) {
        unsigned key = static_cast<unsigned>(tick) * 4400 + i;
        add_flow(key);
        if (next_random(tick % 6 < 2 ? 4 : 25))
            answered.emplace_back(tick, key);
    }
}

// The spans of a trace are exported and dropped when its root ends. The roots of one trace in 20 never do.
struct span {
    unsigned id;
    char name[196];
};
static std::map<unsigned, std::vector<span>> traces;

OWN static void record_span(unsigned trace, unsigned id)
{
    traces[trace].push_back({id, "span"});
}

static void unfinished_traces(int tick)
{
    for (unsigned i = 0; i < 600; i++) {
        unsigned trace = static_cast<unsigned>(tick) * 600 + i;
        for (unsigned id = 4 + next_random(37); id > 0; id--)
            record_span(trace, id);
        if (next_random(20))
            traces.erase(trace);
    }
}

// A library parses manifests. A manifest of another version, one in eight, is rejected and not freed.
OWN static void *library_allocate(size_t n_bytes)
{
    return calloc(1, n_bytes);
}

OWN static bool load_manifest(const std::string &text)
{
    manifest *m = manifest_parse(text.c_str());
    const char *version = manifest_get(m, "version");
    if (!version || strcmp(version, "2"))
        return false;
    manifest_free(m);
    return true;
}

static void library_manifests(int)
{
    manifest_set_allocator(library_allocate, free);
    std::string group = "={";
    for (int i = 0; i < 9; i++)
        group += "option" + std::to_string(i) + "=" + std::string(150 + next_random(200), 'o') + ";";
    group += "};";
    for (int i = 0; i < 320; i++) {
        std::string text = std::string("version=") + (next_random(8) ? "2;" : "1;");
        for (int n = 0; n < 3; n++)
            text += "group" + std::to_string(n) + group;
        load_manifest(text);
    }
}

const program leaking_servers[] = {
    {"archiver_lags", archiver_lags, 0},
    {"keepalive_rearmed", keepalive_rearmed, 0},
    {"detached_thread_state", detached_thread_state, 0},
    {"resolver_outages", resolver_outages, 0},
    {"getline_per_host", getline_per_host, 0},
    {"pool_loses_connections", pool_loses_connections, 0},
    {"options_requests", options_requests, 0},
    {"half_open_flows", half_open_flows, 0},
    {"unfinished_traces", unfinished_traces, 0},
    {"library_manifests", library_manifests, 0},
    {nullptr, nullptr, 0},
};
