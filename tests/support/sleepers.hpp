// SPDX-License-Identifier: MIT
// tests/support/sleepers.hpp - waits until threads sleep, which a busy machine may keep them from for any time. A
// thread says that it is about to wait, and later that it has waited.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

inline std::atomic<int> sleepers[16]; // the ids of threads that are about to wait

inline void goes_to_sleep(int number)
{
    sleepers[number] = (int)syscall(SYS_gettid);
}

inline void has_slept(int number)
{
    sleepers[number] = 0;
}

inline bool sleeps(int tid)
{
    char path[64], state = 0;
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    std::FILE *f = tid ? std::fopen(path, "r") : nullptr;
    if (!f)
        return false;
    int n = std::fscanf(f, "%*d %*s %c", &state);
    std::fclose(f);
    return n == 1 && state == 'S';
}

// Until so many of these threads are about to wait, and sleep.
inline void until_asleep(int n, std::initializer_list<int> numbers)
{
    for (;;) {
        int asleep = 0;
        for (int number : numbers)
            asleep += sleeps(sleepers[number]);
        if (asleep >= n)
            return;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}
