// SPDX-License-Identifier: MIT
//
// leaking_games.cpp - leaks of games, media servers, databases, interpreters and user interfaces, modelled on
// public reports.
#include "programs.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unistd.h>
#include <utility>
#include <vector>

// Textures are used for two ticks. A table of weak references finds one that is in use. A reference keeps the memory of
// its texture, as both are in one block, and none is removed.
struct texture {
    char pixels[12000];
};
static std::unordered_map<unsigned, std::weak_ptr<texture>> texture_of;
static std::deque<std::shared_ptr<texture>> shown_textures;

OWN static std::shared_ptr<texture> load_texture(unsigned id)
{
    auto fresh = std::make_shared<texture>();
    texture_of[id] = fresh;
    return fresh;
}

static void weak_textures(int tick)
{
    for (int i = 0; i < 60; i++) {
        unsigned id = static_cast<unsigned>(tick) * 16 + next_random(16);
        auto found = texture_of[id].lock();
        shown_textures.push_back(found ? found : load_texture(id));
    }
    while (shown_textures.size() > 120)
        shown_textures.pop_front();
}

// The world of a game has no end. Parts near a player are made when he comes, and stay when he has gone. Eight players
// walk, and seldom turn.
static std::map<std::pair<int, int>, std::string> world;

struct player {
    int x, y;
    unsigned direction;
};

OWN static void generate_part(int x, int y)
{
    world.emplace(std::make_pair(x, y), std::string(6000 + next_random(8000), 'w'));
}

static void explored_world(int)
{
    static player players[8];
    for (player &p : players) {
        if (!next_random(7))
            p.direction = next_random(4);
        p.x += p.direction == 0 ? 1 : p.direction == 1 ? -1 : 0;
        p.y += p.direction == 2 ? 1 : p.direction == 3 ? -1 : 0;
        for (int i = 0; i < 9; i++) {
            if (!world.count({p.x + i % 3, p.y + i / 3}))
                generate_part(p.x + i % 3, p.y + i / 3);
        }
    }
}

// The data of a packet are given back. The small structure that refers to them is not.
struct packet {
    char *data;
    size_t n_bytes;
    char times[96];
};

OWN static packet *new_packet()
{
    return static_cast<packet *>(calloc(1, sizeof(packet)));
}

OWN static void read_packet_data(packet *p)
{
    p->n_bytes = 300 + next_random(3000);
    p->data = xmalloc(p->n_bytes);
}

static void packet_shells(int)
{
    static packet *sent[64];
    for (int i = 0; i < 1500; i++) {
        packet *p = new_packet();
        read_packet_data(p);
        if (packet *&last = sent[i % 64]) {
            free(last->data);
            last->data = nullptr;
            last = nullptr;
        }
        sent[i % 64] = p;
    }
}

// Packets wait for their turn in a map by number. A packet that comes after its turn, one in 100, is put there too.
static std::map<unsigned, char *> waiting[12];

OWN static void store_packet(unsigned camera, unsigned number)
{
    waiting[camera][number] = xmalloc(3000 + next_random(6000));
}

static void late_packets(int)
{
    static unsigned n_played[12];
    for (int i = 0; i < 3000; i++) {
        unsigned camera = static_cast<unsigned>(i) % 12, next = n_played[camera]++;
        bool is_late = next > 40 && !next_random(100);
        store_packet(camera, is_late ? next - 30 : next + 15);
        auto played = waiting[camera].find(next);
        if (played == waiting[camera].end())
            continue;
        free(played->second);
        waiting[camera].erase(played);
    }
}

// The memory of a prepared statement is freed with the statement. Its header is cut from the memory of its session, one
// of twelve that a pool keeps open.
struct db_session {
    std::vector<char *> chunks;
    size_t n_left = 0;
};

OWN static void grow_session_memory(db_session &session)
{
    session.chunks.push_back(xmalloc(32 << 10));
    session.n_left = 32 << 10;
}

static void statement_headers(int)
{
    static db_session sessions[12];
    for (unsigned n = 150 + next_random(350); n > 0; n--) {
        db_session &session = sessions[next_random(12)];
        if (session.n_left < 620)
            grow_session_memory(session);
        session.n_left -= 620;
        char *plan = xmalloc(4000 + next_random(30000));
        plan[100] = 'p';
        free(plan);
    }
}

// An error refers to the error that was being handled when it was raised. Most are freed. The loop of the program
// handles each of its errors, one in 11, within the handler of the last one.
struct error {
    error *context;
    char traceback[1];
};

OWN static error *raise_error(error *context)
{
    error *fresh = static_cast<error *>(static_cast<void *>(xmalloc(1500 + next_random(5000))));
    fresh->context = context;
    return fresh;
}

static void chained_errors(int)
{
    static error *handled;
    for (int i = 0; i < 450; i++) {
        if (i % 11)
            free(raise_error(nullptr));
        else
            handled = raise_error(handled);
    }
}

// Each change makes a new copy of the routes. An old copy is freed when all threads have passed the time of the change.
// One thread waits for work from tick 9 on, and is asked all the same. Changes become more frequent.
static std::deque<std::pair<int, char *>> retired_routes;
static int passed_by[4];

OWN static char *copy_routes()
{
    return xmalloc(13000);
}

static void idle_reader(int tick)
{
    static char *routes;
    for (int change = 0; change < 3 + tick / 2; change++) {
        if (routes)
            retired_routes.emplace_back(tick, routes);
        routes = copy_routes();
    }
    for (int thread = 0; thread < 4; thread++) {
        if (thread != 2 || tick < 9)
            passed_by[thread] = tick;
    }
    int passed_by_all = *std::min_element(passed_by, passed_by + 4);
    for (; !retired_routes.empty() && retired_routes.front().first < passed_by_all; retired_routes.pop_front())
        free(retired_routes.front().second);
}

// A thread for each upload. One in 12 waits for the answer of a server that never comes, without a limit of time.
static std::mutex &upload_mutex = *new std::mutex; // these two outlive exit, for the threads that wait
static std::condition_variable &upload_changed = *new std::condition_variable;
static int n_uploads, n_answers_wanted;

OWN static char *read_upload()
{
    return xmalloc(50000);
}

static void serve_one_upload(bool is_answered)
{
    char *upload = read_upload();
    std::unique_lock<std::mutex> lock(upload_mutex);
    n_uploads--;
    upload_changed.notify_all();
    if (!is_answered) {
        n_answers_wanted++;
        upload_changed.wait(lock, [] { return n_answers_wanted == 0; });
    }
    free(upload);
}

static void hung_uploads(int)
{
    for (int i = 0; i < 40; i++) {
        std::unique_lock<std::mutex> lock(upload_mutex);
        n_uploads++;
        std::thread(serve_one_upload, next_random(12) > 0).detach();
        upload_changed.wait(lock, [] { return n_uploads < 4; });
    }
    std::unique_lock<std::mutex> lock(upload_mutex);
    upload_changed.wait(lock, [] { return !n_uploads; });
}

// A view makes its rows anew four times a tick, when it is looked at. Tooltips of rows that changed have no parent that
// would free them.
struct row {
    std::string text, *tooltip;
};

OWN static std::string *make_tooltip()
{
    return new std::string(700 + next_random(2600), 't');
}

static void tooltips_without_parent(int tick)
{
    static std::vector<row> rows;
    for (int refresh = 0; refresh < (tick % 7 < 5 ? 4 : 0); refresh++) {
        rows.clear();
        for (int i = 0; i < 120; i++)
            rows.push_back({std::string(300 + next_random(900), 'r'), next_random(5) ? nullptr : make_tooltip()});
    }
}

// A replica that has lost its primary asks for all data. The buffers for that are aligned for direct reads, and stay.
OWN static void *allocate_sync_buffer()
{
    void *buffer = nullptr;
    if (posix_memalign(&buffer, 4096, 128 << 10))
        _exit(3);
    return buffer;
}

static void synchronized_again(int tick)
{
    static char *changes[300];
    int at = tick % 17;
    for (int i = 0; (at == 4 || at == 5 || at == 13) && i < 6; i++)
        memset(allocate_sync_buffer(), 's', 100);
    for (int i = 0; i < 900; i++) {
        char *&change = changes[next_random(300)];
        free(change);
        change = xmalloc(200 + next_random(3000));
    }
}

const program leaking_games[] = {
    {"weak_textures", weak_textures, 0},
    {"explored_world", explored_world, 0},
    {"packet_shells", packet_shells, 0},
    {"late_packets", late_packets, 0},
    {"statement_headers", statement_headers, 0},
    {"chained_errors", chained_errors, 0},
    {"idle_reader", idle_reader, 0},
    {"hung_uploads", hung_uploads, 0},
    {"tooltips_without_parent", tooltips_without_parent, 0},
    {"synchronized_again", synchronized_again, 0},
    {nullptr, nullptr, 0},
};
