// SPDX-License-Identifier: MIT
//
// paced.cpp - runs one of the paced programs and prints how many bytes it lost.
//
//     leaks_paced NAME LOAD_STEPS IDLE_STEPS HEAP_RATE SEED END
//
// END is how the process ends: exit, _exit or term (by its own SIGTERM). The last line of output is "lost BYTES
// SAMPLES": the requested bytes that leaked, and how many of these blocks are sampled on average at that rate.
#include "paced.h"

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <ctime>
#include <unistd.h>

enum { STEP_NS = 20 * 1000 * 1000, IN_FLIGHT = 60 };
#include "traffic.h"

int n_load_steps;

static double rate, lost_bytes, lost_samples;
static std::mutex lost_lock;

void lost(size_t n_bytes)
{
    std::lock_guard<std::mutex> guard(lost_lock);
    lost_bytes += static_cast<double>(n_bytes);
    lost_samples += -expm1(-static_cast<double>(n_bytes) / rate);
}

static void end_traffic()
{
    for (char *&request : requests) {
        free(request);
        request = nullptr;
    }
}

static void run(const paced_program &program, int n_idle_steps)
{
    timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int step = 0; step < n_load_steps + n_idle_steps; step++) {
        if (step < n_load_steps) {
            traffic(90);
            program.work(step);
        } else if (step == n_load_steps) {
            end_traffic();
        } else if (program.idle) {
            program.idle(step);
        }
        next.tv_nsec += STEP_NS;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr) == EINTR)
            continue;
    }
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    const paced_program *found = nullptr;
    for (const paced_program *set :
         {load_then_idle, short_runs, linear_queues, leaking_services, sound_services, paced_victims}) {
        for (const paced_program *at = set; at->name; at++)
            found = strcmp(at->name, argv[1]) ? found : at;
    }
    if (!found)
        return 2;
    n_load_steps = atoi(argv[2]);
    rate = atof(argv[4]);
    state = 88172645463325252 + static_cast<uint64_t>(atoi(argv[5])) * 2654435761;
    run(*found, atoi(argv[3]));
    printf("lost %.0f %.1f\n", lost_bytes, lost_samples);
    fflush(stdout);
    if (!strcmp(argv[6], "term"))
        raise(SIGTERM);
    if (!strcmp(argv[6], "_exit"))
        _exit(0);
    return 0;
}
