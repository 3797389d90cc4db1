// SPDX-License-Identifier: MIT
//
// leaking_patterns.cpp - programs that lose memory, each in one function, whose name bench.py knows.
#include "programs.h"

#include <cstdio>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <pthread.h>
#include <regex.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

// A buffer is not freed when a request fails; one in 20 fails.
OWN static char *read_body()
{
    return xmalloc(32768);
}

static void error_path(int)
{
    for (int i = 0; i < 400; i++) {
        char *body = read_body();
        if (next_random(20))
            free(body);
    }
}

struct session {
    std::shared_ptr<session> peer;
    char data[8192];
};

OWN static std::shared_ptr<session> make_session()
{
    return std::make_shared<session>();
}

static void shared_cycle(int)
{
    for (int i = 0; i < 40; i++) {
        auto one = make_session(), two = make_session();
        one->peer = two;
        two->peer = one;
    }
}

static std::unordered_map<std::string, std::string> pages;

OWN static void cache_put(int n)
{
    pages.emplace("/page/" + std::to_string(n), std::string(6000, 'x'));
}

static void cache_without_eviction(int tick)
{
    for (int i = 0; i < 150; i++)
        cache_put(tick * 150 + i);
}

struct listener {
    char settings[1000];
    void operator()() const {}
};

static std::vector<std::function<void()>> listeners;

OWN static void subscribe()
{
    listeners.push_back(listener{});
}

static void listener_never_removed(int)
{
    for (int i = 0; i < 800; i++)
        subscribe();
}

static void *transfer(void *context)
{
    return context;
}

OWN static void start_transfer(pthread_attr_t *attributes)
{
    pthread_t thread;
    pthread_create(&thread, attributes, transfer, xmalloc(65536)); // the thread that joins it would free this
}

static void thread_never_joined(int)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < 8; i++)
        start_transfer(&attributes);
    pthread_attr_destroy(&attributes);
}

static std::vector<double> series[2000];

OWN static void record_metric(int i)
{
    series[i].push_back(1.5);
}

static void growing_vectors(int)
{
    for (int i = 0; i < 100000; i++) { // some metrics come more often than others
        unsigned at = next_random(2000);
        record_metric(static_cast<int>(at * at / 2000));
    }
}

struct peer {
    peer *next;
    char address[32];
};

static peer *peers;

OWN static void remember_peer()
{
    peers = new peer{peers, ""};
}

static void small_blocks(int)
{
    for (int i = 0; i < 16000; i++)
        remember_peer();
}

OWN static char *serve_upload()
{
    return xmalloc(100000);
}

static void one_of_workers(int)
{
    for (int i = 0; i < 60; i++) {
        char *upload = serve_upload();
        if (worker != 1 || i % 10)
            free(upload);
    }
}

static char *images[40];

OWN static char *load_image()
{
    return xmalloc(65536);
}

static void slow_beside_churn(int)
{
    for (int i = 0; i < 200; i++) {
        char **at = &images[next_random(40)], *image = load_image();
        free(*at);
        *at = image;
    }
    for (int i = 0; i < 8; i++)
        load_image();
}

static std::vector<char *> notes;

OWN static void attach_debug_info()
{
    notes.push_back(xmalloc(20000));
}

static void begins_late(int tick)
{
    for (int i = 0; tick >= 16 && i < 50; i++)
        attach_debug_info();
}

static void plugin(int)
{
    static void (*transform)(int);
    if (!transform) {
        char path[4096];
        ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
        path[n > 0 ? n : 0] = 0;
        strcpy(strrchr(path, '/') + 1, "libleaks_plugin.so");
        void *object = dlopen(path, RTLD_NOW);
        transform = object ? reinterpret_cast<void (*)(int)>(dlsym(object, "plugin_work")) : nullptr;
        if (!transform)
            _exit(3);
    }
    transform(100);
}

struct log_file {
    char *name;
    int number;
};

OWN static log_file open_log(int number)
{
    char name[900];
    memset(name, 'l', sizeof name);
    snprintf(name + 800, 90, "/%d.log", number);
    return {strdup(name), number};
}

static void log_names(int tick)
{
    for (int i = 0; i < 1200; i++)
        open_log(tick * 1200 + i);
}

OWN static bool match_route(const char *path)
{
    regex_t route;
    if (regcomp(&route, "^/(user|group)/([0-9]+)/(edit|view|delete)$", REG_EXTENDED))
        return false;
    return !regexec(&route, path, 0, nullptr, 0);
}

static void regex_per_request(int)
{
    for (int i = 0; i < 60; i++)
        match_route("/user/17/edit");
}

OWN static char *format_message(int number)
{
    char *text;
    return asprintf(&text, "%0500d of a message", number) < 0 ? nullptr : text;
}

static void message_text(int)
{
    for (int i = 0; i < 2000; i++)
        format_message(i);
}

static std::deque<std::string> queue;

OWN static void publish()
{
    queue.emplace_back(4000, 'q');
}

static void queue_without_consumer(int)
{
    for (int i = 0; i < 320; i++)
        publish();
    for (int i = 0; i < 60; i++)
        queue.pop_front();
}

static char *histories[64];
static size_t history_bytes[64];

OWN static void append_history(int i)
{
    history_bytes[i] += 16384;
    histories[i] = static_cast<char *>(realloc(histories[i], history_bytes[i]));
}

static void realloc_grows(int)
{
    for (int i = 0; i < 48; i++)
        append_history(static_cast<int>(next_random(64)));
}

struct image {
    char *pixels;
    explicit image(size_t n) : pixels(xmalloc(n)) {}
    ~image() {} // does not free the pixels
};

OWN static std::unique_ptr<image> decode_image()
{
    return std::unique_ptr<image>(new image(40000));
}

static void destructor_forgets(int)
{
    for (int i = 0; i < 20; i++)
        decode_image();
}

static std::map<int, std::vector<char>> tree;

OWN static void insert_key(int key)
{
    tree[key].resize(3000);
}

static void tombstones(int tick)
{
    for (int i = 0; i < 150; i++)
        insert_key(tick * 150 + i);
    for (auto &entry : tree)
        entry.second[0] = 'x'; // marks entries as deleted, but keeps them
}

static std::vector<std::vector<int>> snapshots;

OWN static std::vector<int> take_snapshot()
{
    return std::vector<int>(150000);
}

static void snapshots_kept(int)
{
    snapshots.push_back(take_snapshot());
}

static pthread_key_t scratch_key;

OWN static void thread_scratch()
{
    pthread_setspecific(scratch_key, xmalloc(100000));
}

static void thread_data(int tick)
{
    if (!tick)
        pthread_key_create(&scratch_key, nullptr); // no destructor
    for (int i = 0; i < 8; i++)
        std::thread(thread_scratch).join();
}

OWN static void parse_document(int number)
{
    char *text = xmalloc(24000);
    if (!(number % 12))
        throw std::runtime_error("bad document");
    free(text);
}

static void exception_path(int)
{
    for (int i = 0; i < 400; i++) {
        try {
            parse_document(i);
        } catch (const std::runtime_error &) {
        }
    }
}

OWN static char *copy_headers()
{
    return xmalloc(5000);
}

OWN static char *copy_trailers()
{
    return xmalloc(12000);
}

static void two_leaks(int)
{
    for (int i = 0; i < 150; i++) {
        copy_headers();
        copy_trailers();
    }
}

static std::deque<char *> sessions;

OWN static char *track_session()
{
    return xmalloc(10000);
}

static void load_and_leak(int tick)
{
    size_t wanted = tick / 5 % 2 ? 600 : 300;
    for (int i = 0; i < 700; i++) {
        char *fresh = track_session();
        if (i % 7)
            sessions.push_back(fresh);
    }
    while (sessions.size() > wanted) {
        free(sessions.front());
        sessions.pop_front();
    }
}

OWN static char *load_model()
{
    return xmalloc(2 << 20);
}

static void rare_and_large(int tick)
{
    if (tick % 3 == 1)
        load_model();
}

OWN static char *queue_retry()
{
    return xmalloc(8000);
}

static void accelerating(int tick)
{
    for (int i = 0; i < tick * 6; i++)
        queue_retry();
}

OWN static char *keep_token()
{
    return xmalloc(3000);
}

static void slowing(int tick)
{
    for (int i = 0; i < (tick < 26 ? 600 : 330); i++)
        keep_token();
}

OWN static char *flush_batch()
{
    return xmalloc(7000);
}

static void bursts(int tick)
{
    for (int i = 0; tick % 5 == 2 && i < 600; i++)
        flush_batch();
}

const program leaking_patterns[] = {
    {"error_path", error_path, 0},
    {"shared_cycle", shared_cycle, 0},
    {"cache_without_eviction", cache_without_eviction, 0},
    {"listener_never_removed", listener_never_removed, 0},
    {"thread_never_joined", thread_never_joined, 0},
    {"growing_vectors", growing_vectors, 0},
    {"log_names", log_names, 0},
    {"small_blocks", small_blocks, 0},
    {"one_of_workers", one_of_workers, 3},
    {"slow_beside_churn", slow_beside_churn, 0},
    {"begins_late", begins_late, 0},
    {"plugin", plugin, 0},
    {"message_text", message_text, 0},
    {"regex_per_request", regex_per_request, 0},
    {"realloc_grows", realloc_grows, 0},
    {"queue_without_consumer", queue_without_consumer, 0},
    {"tombstones", tombstones, 0},
    {"destructor_forgets", destructor_forgets, 0},
    {"thread_data", thread_data, 0},
    {"snapshots_kept", snapshots_kept, 0},
    {"two_leaks", two_leaks, 0},
    {"exception_path", exception_path, 0},
    {"rare_and_large", rare_and_large, 0},
    {"load_and_leak", load_and_leak, 0},
    {"slowing", slowing, 0},
    {"accelerating", accelerating, 0},
    {"bursts", bursts, 0},
    {nullptr, nullptr, 0},
};
