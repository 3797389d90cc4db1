// SPDX-License-Identifier: MIT
// victim_cxx20_waits.cpp - the ways in which C++20 makes threads wait for each other.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <latch>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

#include "../../support/sleepers.hpp"

static void ms(int n)
{
    std::this_thread::sleep_for(std::chrono::milliseconds(n));
}

/* A lock made of an atomic. */
struct Lock {
    std::atomic<int> taken{0};
    void lock()
    {
        while (taken.exchange(1))
            taken.wait(1);
    }
    void unlock()
    {
        taken.store(0);
        taken.notify_one();
    }
};

static Lock own;
static std::atomic<int> event{0};
static std::counting_semaphore<8> work{0};
static std::latch begin{3};
static std::barrier<> stage{3};

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE void holds_long(int turn)
{
    std::lock_guard<Lock> guard(own);
    if (turn % 50 == 0)
        until_asleep(1, {1, 2});
    ms(2);
}

NOINLINE void holds_short(int i)
{
    goes_to_sleep(i);
    std::lock_guard<Lock> guard(own);
    has_slept(i);
}

NOINLINE void waits_for_event(int i)
{
    goes_to_sleep(i);
    event.wait(0);
    has_slept(i);
}

NOINLINE void waits_for_work(int i)
{
    goes_to_sleep(i);
    work.acquire();
    has_slept(i);
}

// The last thread comes 200 ms after the others sleep.
static void comes(int i)
{
    if (i == 2)
        until_asleep(2, {0, 1}), ms(200);
    else
        goes_to_sleep(i);
}

NOINLINE void waits_for_others(int i)
{
    comes(i);
    begin.arrive_and_wait();
    has_slept(i);
    comes(i);
    stage.arrive_and_wait();
    has_slept(i);
}

struct Slow {
    int value = 1;
    Slow()
    {
        until_asleep(2, {0, 1, 2});
        ms(30);
    }
};

NOINLINE int makes_it_once(int i)
{
    goes_to_sleep(i);
    static Slow slow;
    has_slept(i);
    return slow.value;
}

int main()
{
    std::vector<std::thread> threads;
    std::atomic<int> made{0};
    std::atomic<bool> ended{false};
    for (int i = 0; i < 3; i++)
        threads.emplace_back([i, &made, &ended] {
            waits_for_event(i);
            waits_for_work(i);
            waits_for_others(i);
            made += makes_it_once(i);
            for (int turn = 0; i == 0 && turn < 200; turn++)
                holds_long(turn);
            if (i == 0)
                ended = true;
            while (!ended)
                holds_short(i), std::this_thread::sleep_for(std::chrono::microseconds(300));
        });
    until_asleep(3, {0, 1, 2});
    ms(50);
    event = 1;
    event.notify_all();
    until_asleep(3, {0, 1, 2}); // in the next wait
    ms(50);
    work.release(3);
    for (auto &thread : threads)
        thread.join();
    std::printf("%d\n", made.load());
}
