// SPDX-License-Identifier: MIT
//
// main.cpp - runs one of the programs for 40 ticks, beside the traffic of a server, and asks for profiles after each.
//
//     programs NAME          programs --list
//
// The traffic is 10 GB an hour: 42 MB of short-lived blocks in each tick of 15 seconds.
#include "programs.h"

#include "deltaprof/deltaprof.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#pragma weak deltaprof_emit

int worker;

enum { IN_FLIGHT = 300 };
#include "traffic.h"

static void run(const program &p)
{
    for (int tick = 0; tick < N_TICKS; tick++) {
        traffic(3400);
        p.work(tick);
        if (deltaprof_emit)
            deltaprof_emit();
    }
}

/* The program of that name, or the one without a name at the end. */
static const program *find(const program *p, const char *name)
{
    while (p->name && strcmp(p->name, name))
        p++;
    return p;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    static const struct {
        const char *name;
        const program *programs;
    } sets[] = {{"leak", leaking_patterns},
                {"sound", sound_patterns},
                {"both", timers_and_buffers},
                {"leak", leaking_shapes},
                {"sound", sound_shapes},
                {"leak", leaking_sessions_and_tables},
                {"sound", sound_sessions_and_tables},
                {"leak", leaking_servers},
                {"leak", leaking_engines},
                {"sound", sound_servers},
                {"sound", sound_engines},
                {"leak", leaking_brokers},
                {"leak", leaking_games},
                {"sound", sound_brokers},
                {"sound", sound_games}};
    const program *p = nullptr;
    bool is_list = !strcmp(argv[1], "--list");
    for (const auto &set : sets) {
        for (const program *at = set.programs; is_list && at->name; at++)
            printf("%s %s\n", set.name, at->name);
        if (!p || !p->name)
            p = find(set.programs, argv[1]);
    }
    if (!p->name)
        return is_list ? 0 : 2;
    if (!p->n_workers)
        run(*p);
    for (worker = 0; worker < p->n_workers; worker++) {
        if (!fork()) {
            run(*p);
            exit(0);
        }
    }
    while (wait(nullptr) > 0)
        continue;
    return 0;
}
