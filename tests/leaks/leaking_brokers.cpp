// SPDX-License-Identifier: MIT
//
// leaking_brokers.cpp - leaks of proxies, brokers, resolvers and mail servers, modelled on public reports.
#include "programs.h"

#include <cstdio>
#include <cstring>
#include <deque>
#include <dirent.h>
#include <iconv.h>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unistd.h>
#include <utility>
#include <vector>

// A proxy has six connections to its servers for as long as it runs. A stream that ends is freed. A stream that its
// client resets, one in 12, stays in the connection's table.
struct stream {
    bool is_reset;
    char window[1];
};
static std::map<unsigned, stream *> streams[6];
static std::deque<std::pair<unsigned, unsigned>> open_streams;
static unsigned n_streams;

OWN static void open_stream(unsigned connection)
{
    stream *fresh = static_cast<stream *>(static_cast<void *>(xmalloc(3000 + next_random(6000))));
    fresh->is_reset = !next_random(12);
    streams[connection][n_streams] = fresh;
    open_streams.emplace_back(connection, n_streams++);
}

static void end_stream(unsigned connection, unsigned id)
{
    auto found = streams[connection].find(id);
    if (found->second->is_reset)
        return;
    free(found->second);
    streams[connection].erase(found);
}

static void reset_streams(int)
{
    for (unsigned n = 180 + next_random(360); n > 0; n--) {
        open_stream(next_random(6));
        if (open_streams.size() <= 60)
            continue;
        end_stream(open_streams.front().first, open_streams.front().second);
        open_streams.pop_front();
    }
}

// The state of a compression is not freed. One client in 400 asks for compressed replies.
struct compression {
    char *window, *chains;
};

OWN static compression begin_compression()
{
    return {xmalloc(64 << 10), xmalloc(104 << 10)};
}

static void compressed_replies(int)
{
    for (int i = 0; i < 800; i++) {
        char *reply = xmalloc(500 + next_random(12000));
        if (!next_random(400)) {
            compression state = begin_compression();
            memcpy(state.window, reply, 500);
        }
        free(reply);
    }
}

// Connections are found by their ids. A connection that moves to another address, one in 15, gets a second id. Its end
// removes the newest id only.
struct datagram_connection {
    unsigned newest_id;
    char keys_and_streams[14000];
};
static std::unordered_map<unsigned, std::shared_ptr<datagram_connection>> by_id;
static std::vector<std::shared_ptr<datagram_connection>> alive;
static unsigned n_ids;

OWN static void accept_datagrams()
{
    auto fresh = std::make_shared<datagram_connection>();
    fresh->newest_id = n_ids++;
    by_id[fresh->newest_id] = fresh;
    alive.push_back(fresh);
}

static void moved_connections(int)
{
    for (int i = 0; i < 200; i++) {
        accept_datagrams();
        if (!next_random(15)) {
            alive.back()->newest_id = n_ids++;
            by_id[alive.back()->newest_id] = alive.back();
        }
        if (alive.size() <= 300)
            continue;
        auto &ended = alive[next_random(300)];
        by_id.erase(ended->newest_id);
        ended = alive.back();
        alive.pop_back();
    }
}

// A limiter keeps the times of each address's last requests. Old times are removed, addresses are not. 300 clients come
// again and again; scanners come once.
static std::unordered_map<unsigned, std::deque<int>> times_of;

OWN static std::deque<int> &window_of(unsigned address)
{
    return times_of[address];
}

static bool is_allowed(unsigned address, int now)
{
    std::deque<int> &times = window_of(address);
    while (!times.empty() && times.front() < now - 1)
        times.pop_front();
    times.push_back(now);
    return times.size() < 30;
}

static void limiter_addresses(int tick)
{
    for (int i = 0; i < 900; i++) {
        bool is_scanner = next_random(4) == 0;
        is_allowed(is_scanner ? 1000000 + static_cast<unsigned>(tick * 900 + i) : next_random(300), tick);
    }
}

// A broker keeps 60 messages for a client that is away. Three devices a tick come with a new name, are gone at once,
// and never come back under it.
struct subscriber {
    bool is_online;
    std::deque<char *> unread;
};
static std::deque<subscriber> subscribers;

OWN static void queue_message(subscriber &s)
{
    s.unread.push_back(xmalloc(400 + next_random(1200)));
}

static void names_by_chance(int tick)
{
    for (int i = 0; i < (tick ? 3 : 25); i++)
        subscribers.push_back({tick == 0, {}});
    for (int message = 0; message < 140; message++) {
        for (subscriber &s : subscribers) {
            if (s.unread.size() < 60)
                queue_message(s);
            while (s.is_online && s.unread.size() > message % 20U) {
                free(s.unread.front());
                s.unread.pop_front();
            }
        }
    }
}

// A resolver keeps answers for five ticks. Those that say that a name does not exist are kept for good. From tick 10 on
// a client asks for random names.
struct answer {
    int asked;
    std::string records;
};
static std::unordered_map<std::string, answer> answers;
static std::unordered_map<std::string, std::string> no_such_name;

OWN static void remember_missing(const std::string &name)
{
    no_such_name.emplace(name, std::string(380 + next_random(200), 's'));
}

OWN static void remember_answer(const std::string &name, int tick)
{
    answers[name] = {tick, std::string(100 + next_random(900), 'r')};
}

static void missing_names(int tick)
{
    for (auto at = answers.begin(); at != answers.end();)
        at = at->second.asked < tick - 5 ? answers.erase(at) : std::next(at);
    for (int i = 0; i < 700; i++)
        remember_answer("www." + std::to_string(next_random(1500)) + ".example", tick);
    for (int i = 0; i < (tick < 10 ? 4 : 290); i++) {
        unsigned number = tick < 10 ? next_random(50) : static_cast<unsigned>(tick * 290 + i);
        remember_missing(std::string(40, 'z') + std::to_string(number) + ".example");
    }
}

// A reply is a chain of buffers. Its release frees the first; one reply in 60 has more.
struct reply_buffer {
    reply_buffer *next;
    char data[8184];
};
static reply_buffer *replies[40];

OWN static reply_buffer *prepend_buffer(reply_buffer *next)
{
    reply_buffer *fresh = new reply_buffer;
    fresh->next = next;
    return fresh;
}

static void first_of_chain(int)
{
    for (int i = 0; i < 900; i++) {
        reply_buffer *&reply = replies[next_random(40)];
        delete reply;
        reply = nullptr;
        for (unsigned n = next_random(60) ? 1 : 2 + next_random(4); n > 0; n--)
            reply = prepend_buffer(reply);
    }
}

// A mail server opens a converter for each subject that is not ASCII, one in 120, and closes none.
OWN static size_t decode_subject(char *subject, size_t n_bytes, char *decoded, size_t n_room)
{
    iconv_t converter = iconv_open("UCS-2", "UTF-8");
    if (converter == reinterpret_cast<iconv_t>(-1))
        _exit(3);
    return iconv(converter, &subject, &n_bytes, &decoded, &n_room);
}

static void converters_stay_open(int)
{
    static char text[80], decoded[400];
    memset(text, 's', sizeof text);
    for (unsigned n = 300 + next_random(700); n > 0; n--) {
        char *mail = xmalloc(1000 + next_random(20000));
        if (!next_random(120))
            decode_subject(text, sizeof text, decoded, sizeof decoded);
        free(mail);
    }
}

// The search for a lock file in a directory returns as soon as it is found, before it has closed the directory.
OWN static bool is_spool_locked(const char *lock)
{
    DIR *directory = opendir(".");
    if (!directory)
        _exit(3);
    while (dirent *entry = readdir(directory)) {
        if (!strcmp(entry->d_name, lock))
            return true;
    }
    closedir(directory);
    return false;
}

static void locked_spools(int)
{
    for (unsigned n = next_random(9); n > 0; n--)
        is_spool_locked("..");
}

// Two workers put the variables of each request into their environment. What was there before is not freed.
OWN static void export_variable(const char *name, size_t n_bytes)
{
    char *text = xmalloc(n_bytes + 40);
    int n = snprintf(text, 40, "%s=", name);
    memset(text + n, 'v', n_bytes);
    text[static_cast<size_t>(n) + n_bytes] = 0;
    putenv(text);
}

static void exported_variables(int)
{
    for (unsigned n = 30 + next_random(60); n > 0; n--) {
        char *body = xmalloc(3000 + next_random(9000));
        export_variable("LEAKS_QUERY", 20 + next_random(700));
        export_variable("LEAKS_COOKIE", 200 + next_random(3000));
        export_variable("LEAKS_PATH", 20 + next_random(200));
        free(body);
    }
}

const program leaking_brokers[] = {
    {"reset_streams", reset_streams, 0},
    {"compressed_replies", compressed_replies, 0},
    {"moved_connections", moved_connections, 0},
    {"limiter_addresses", limiter_addresses, 0},
    {"names_by_chance", names_by_chance, 0},
    {"missing_names", missing_names, 0},
    {"first_of_chain", first_of_chain, 0},
    {"converters_stay_open", converters_stay_open, 0},
    {"locked_spools", locked_spools, 0},
    {"exported_variables", exported_variables, 2},
    {nullptr, nullptr, 0},
};
