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

NOINLINE void holds_long()
{
    std::lock_guard<Lock> guard(own);
    ms(2);
}

NOINLINE void holds_short()
{
    std::lock_guard<Lock> guard(own);
}

NOINLINE void waits_for_event()
{
    event.wait(0);
}

NOINLINE void waits_for_work()
{
    work.acquire();
}

NOINLINE void waits_for_others(int i)
{
    ms(i == 2 ? 200 : 0);
    begin.arrive_and_wait();
    ms(i == 2 ? 200 : 0);
    stage.arrive_and_wait();
}

struct Slow {
    int value = 1;
    Slow()
    {
        ms(30);
    }
};

NOINLINE int makes_it_once()
{
    static Slow slow;
    return slow.value;
}

int main()
{
    std::vector<std::thread> threads;
    std::atomic<int> made{0};
    std::atomic<bool> ended{false};
    for (int i = 0; i < 3; i++)
        threads.emplace_back([i, &made, &ended] {
            waits_for_event();
            waits_for_work();
            waits_for_others(i);
            made += makes_it_once();
            for (int turn = 0; i == 0 && turn < 200; turn++)
                holds_long();
            if (i == 0)
                ended = true;
            while (!ended)
                holds_short(), std::this_thread::sleep_for(std::chrono::microseconds(300));
        });
    ms(50);
    event = 1;
    event.notify_all();
    ms(50);
    work.release(3);
    for (auto &thread : threads)
        thread.join();
    std::printf("%d\n", made.load());
}
