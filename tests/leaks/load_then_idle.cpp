// SPDX-License-Identifier: MIT
//
// load_then_idle.cpp - servers that have load for some seconds and are idle afterwards. Some leak while they have load;
// others keep caches, pools and arenas that stopped growing while the load went on.
#include "paced.h"

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

// ---- that leak ----

// A session owns its user, and the user its session. Logout drops one reference to each.
namespace
{
struct session;
struct user {
    std::shared_ptr<session> current;
    char profile[1200];
};
struct session {
    std::shared_ptr<user> owner;
    char state[1500];
};
} // namespace

OWN static std::shared_ptr<session> login()
{
    auto who = std::make_shared<user>();
    auto fresh = std::make_shared<session>();
    fresh->owner = who;
    who->current = fresh;
    lost(sizeof(user) + 16);
    lost(sizeof(session) + 16);
    return fresh;
}

static void session_cycles(int)
{
    for (int i = 0; i < 90; i++)
        login()->state[0] = 1;
}

// A reply takes its request out of the table. Requests that get no reply, one in nine, stay.
static std::unordered_map<unsigned, std::vector<char>> pending;

OWN static void add_pending(unsigned id)
{
    pending.emplace(id, std::vector<char>(3000));
}

static void requests_without_reply(int)
{
    static unsigned next_id;
    for (int i = 0; i < 270; i++) {
        add_pending(next_id);
        if (next_random(9))
            pending.erase(next_id);
        else
            lost(3000);
        next_id++;
    }
}

// A view subscribes when it opens and never unsubscribes.
static std::vector<std::function<char()>> listeners;

OWN static void subscribe_view()
{
    char context[2400] = "view";
    listeners.push_back([context] { return context[0]; });
    lost(sizeof context);
}

static void listeners_stay(int)
{
    for (int i = 0; i < 70; i++)
        subscribe_view();
}

// Each element of a document owns its parent and its children.
namespace
{
struct element {
    std::shared_ptr<element> parent;
    std::vector<std::shared_ptr<element>> children;
    char text[700];
};
} // namespace

OWN static std::shared_ptr<element> new_element(const std::shared_ptr<element> &parent)
{
    auto fresh = std::make_shared<element>();
    fresh->parent = parent;
    lost(sizeof(element) + 16);
    return fresh;
}

static void parents_are_owned(int)
{
    for (int document = 0; document < 5; document++) {
        auto root = new_element(nullptr);
        for (int i = 0; i < 30; i++)
            root->children.push_back(new_element(root));
    }
}

// An upload that is too large is refused, and its buffer is lost.
OWN static char *receive_upload()
{
    return xmalloc(40000);
}

static void refused_uploads(int)
{
    for (int i = 0; i < 40; i++) {
        char *upload = receive_upload();
        if (next_random(8))
            free(upload);
        else
            lost(40000);
    }
}

// A thread serves the requests of each step. It leaves its context in a registry.
static std::vector<char *> contexts;

OWN static void serve_in_thread()
{
    char *context = xmalloc(120000);
    contexts.push_back(context);
    lost(120000);
}

static void contexts_of_threads(int)
{
    std::thread(serve_in_thread).join();
}

// Each request leaves an audit record. While idle, a timer goes on to allocate and free.
static std::list<std::string> audit;

OWN static void record_audit(int step)
{
    audit.emplace_back(1800, static_cast<char>('a' + step % 20));
    lost(1801);
}

static void audit_records(int step)
{
    for (int i = 0; i < 60; i++)
        record_audit(step);
}

OWN static void take_measurement()
{
    for (int i = 0; i < 20; i++)
        free(xmalloc(4000 + next_random(8000)));
}

static void measure(int)
{
    take_measurement();
}

// ---- that do not leak ----

// The least recently used of 4,000 entries leaves. The cache is full after a third of the load.
static std::list<std::pair<unsigned, std::string>> by_age;
static std::unordered_map<unsigned, decltype(by_age)::iterator> by_key;

OWN static void remember_page(unsigned key)
{
    by_age.emplace_front(key, std::string(3000, 'p'));
    by_key[key] = by_age.begin();
}

static void lru_of_pages(int)
{
    int n = 4000 * 3 / n_load_steps;
    for (int i = 0; i < n; i++) {
        unsigned key = next_random(1000000);
        if (by_key.count(key))
            continue;
        remember_page(key);
        if (by_age.size() > 4000) {
            by_key.erase(by_age.back().first);
            by_age.pop_back();
        }
    }
}

// Connections come from a pool that makes one when none is free. The number in use swings below a peak that is reached
// after 40 % of the load.
static std::vector<char *> free_connections, used_connections;

OWN static char *make_connection()
{
    return xmalloc(30000);
}

static void pool_of_connections(int step)
{
    int peak = 700, begin = n_load_steps * 2 / 5;
    size_t wanted = step < begin ? static_cast<size_t>(peak * step / begin) : 400 + next_random(300);
    while (used_connections.size() < wanted) {
        if (free_connections.empty())
            free_connections.push_back(make_connection());
        used_connections.push_back(free_connections.back());
        free_connections.pop_back();
    }
    while (used_connections.size() > wanted) {
        free_connections.push_back(used_connections.back());
        used_connections.pop_back();
    }
}

static void idle_pool(int)
{
    free_connections.insert(free_connections.end(), used_connections.begin(), used_connections.end());
    used_connections.clear();
}

// A request takes chunks of an arena and gives all of them back. Large requests need more chunks than others.
static std::vector<char *> chunks;

OWN static void add_chunk()
{
    chunks.push_back(xmalloc(65536));
}

static void arena_keeps_chunks(int step)
{
    for (int i = 0; i < 10; i++) {
        size_t n = 20 + next_random(1 + 220u * static_cast<unsigned>(step) / static_cast<unsigned>(n_load_steps));
        n = n > 130 ? 130 : n;
        while (chunks.size() < n)
            add_chunk();
    }
}

// A table of 5,000 articles is filled as they are asked for, and is full after 40 % of the load.
static std::map<unsigned, char *> articles;

OWN static char *load_article()
{
    return xmalloc(3500);
}

static void table_is_full(int)
{
    int n = 5000 * 5 / 2 / n_load_steps;
    static unsigned next;
    for (int i = 0; i < n; i++) {
        unsigned key = articles.size() < 5000 ? next++ % 5000 : next_random(5000);
        char *&article = articles[key];
        if (!article)
            article = load_article();
    }
}

// Words are interned. There are 6,000; most of them come early.
static std::unordered_map<std::string, std::string> words;

OWN static void intern_word(const std::string &word)
{
    if (!words.count(word))
        words.emplace(word, std::string(2600, 'w'));
}

static void vocabulary(int)
{
    for (int i = 0; i < 300; i++)
        intern_word(std::to_string(next_random(6000)));
}

// The buffer of a connection grows to the largest message so far and stays at that. Sizes have a limit.
static std::vector<char> buffers[150];

OWN static void grow_buffer(std::vector<char> &buffer, size_t n_bytes)
{
    buffer.resize(n_bytes);
}

static void buffers_at_their_limit(int)
{
    for (int i = 0; i < 60; i++) {
        auto &buffer = buffers[next_random(150)];
        size_t n_bytes = 4096u << next_random(6);
        if (buffer.size() < n_bytes)
            grow_buffer(buffer, n_bytes);
    }
}

const paced_program load_then_idle[] = {
    {"session_cycles", session_cycles, nullptr},
    {"requests_without_reply", requests_without_reply, nullptr},
    {"listeners_stay", listeners_stay, nullptr},
    {"parents_are_owned", parents_are_owned, nullptr},
    {"refused_uploads", refused_uploads, nullptr},
    {"contexts_of_threads", contexts_of_threads, nullptr},
    {"audit_records", audit_records, measure},
    {"lru_of_pages", lru_of_pages, nullptr},
    {"pool_of_connections", pool_of_connections, idle_pool},
    {"arena_keeps_chunks", arena_keeps_chunks, nullptr},
    {"table_is_full", table_is_full, measure},
    {"vocabulary", vocabulary, nullptr},
    {"buffers_at_their_limit", buffers_at_their_limit, measure},
    {nullptr, nullptr, nullptr},
};
