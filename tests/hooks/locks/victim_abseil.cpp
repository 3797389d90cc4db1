// SPDX-License-Identifier: MIT
// victim_abseil.cpp - the ways in which abseil makes threads wait for each other.
#include <absl/base/call_once.h>
#include <absl/base/internal/spinlock.h>
#include <absl/synchronization/barrier.h>
#include <absl/synchronization/mutex.h>
#include <absl/synchronization/notification.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "../../support/sleepers.hpp"

static void us(int n)
{
    std::this_thread::sleep_for(std::chrono::microseconds(n));
}

#define NOINLINE       __attribute__((noinline, noclone))
#define NO_TAIL_CALL() __asm__ volatile("") /* the caller stays on the stack */

static absl::Mutex lock, shared, queue;
static absl::base_internal::SpinLock spin;
static absl::CondVar has_work;
static absl::Notification ended;
static absl::once_flag made;
static absl::Barrier begin(3), next(3), spinning(3);
static std::atomic<int> stage; // of the thread that holds locks for long; others contend meanwhile
static int n_turns, n_writes, n_work, wanted;

enum { IDLE = 3, WAITS, WAITS_FOR_THE_END }; // numbers of threads; 0, 1 and 2 contend

// The thread that holds a lock for long, in some turns: until another one waits for it.
static void until_wanted(int turn)
{
    if (turn % 50 == 0)
        until_asleep(1, {1, 2});
}

NOINLINE void holds_long()
{
    absl::MutexLock guard(&lock);
    until_wanted(n_turns);
    us(1000);
    n_turns++;
}

NOINLINE int holds_short(int i)
{
    goes_to_sleep(i);
    absl::MutexLock guard(&lock);
    has_slept(i);
    return n_turns;
}

NOINLINE void spins_long()
{
    absl::base_internal::SpinLockHolder guard(&spin);
    until_wanted(n_turns);
    us(5000);
    n_turns++;
}

NOINLINE int spins_short(int i)
{
    goes_to_sleep(i);
    absl::base_internal::SpinLockHolder guard(&spin);
    has_slept(i);
    return n_turns;
}

NOINLINE void writes()
{
    absl::WriterMutexLock guard(&shared);
    until_wanted(n_writes);
    us(1000);
    n_writes++;
}

NOINLINE int reads(int i)
{
    goes_to_sleep(i);
    absl::ReaderMutexLock guard(&shared);
    has_slept(i);
    us(100);
    return n_writes;
}

NOINLINE void wants_it_made(int i)
{
    goes_to_sleep(i);
    absl::call_once(made, [] {
        until_asleep(2, {0, 1, 2});
        us(50000);
    });
    has_slept(i);
}

NOINLINE void is_idle()
{
    goes_to_sleep(IDLE);
    absl::MutexLock guard(&queue);
    while (!n_work)
        has_work.Wait(&queue);
    n_work--;
}

NOINLINE void gives_up()
{
    absl::MutexLock guard(&queue);
    for (int i = 0; i < 20; i++) // a thread that is kept from running may be late for some of them
        while (!has_work.WaitWithTimeout(&queue, absl::Milliseconds(10)))
            ;
}

static bool is_wanted(int *number)
{
    return *number == 1;
}

NOINLINE void waits_for()
{
    goes_to_sleep(WAITS);
    queue.LockWhen(absl::Condition(is_wanted, &wanted));
    queue.Unlock();
}

NOINLINE void waits_for_the_end()
{
    goes_to_sleep(WAITS_FOR_THE_END);
    ended.WaitForNotification();
    NO_TAIL_CALL();
}

int main()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([i] {
            begin.Block();
            for (int turn = 0; i == 0 && turn < 150; turn++)
                holds_long();
            for (stage += i == 0; stage < 1; us(200))
                holds_short(i);
            next.Block();
            for (int turn = 0; i == 0 && turn < 150; turn++)
                writes(), us(50);
            for (stage += i == 0; stage < 2;)
                reads(i);
            wants_it_made(i);
            spinning.Block();
            for (int turn = 0; i == 0 && turn < 60; turn++)
                spins_long();
            for (stage += i == 0; stage < 3; us(200))
                spins_short(i);
        });
    threads.emplace_back([] {
        for (int i = 0; i < 10; i++)
            is_idle();
    });
    threads.emplace_back(waits_for);
    threads.emplace_back(waits_for_the_end);
    gives_up();
    until_asleep(3, {IDLE, WAITS, WAITS_FOR_THE_END});
    for (int i = 0; i < 10; i++) {
        us(20000);
        absl::MutexLock guard(&queue);
        n_work++;
        has_work.Signal();
    }
    queue.Lock();
    wanted = 1;
    queue.Unlock();
    ended.Notify();
    for (auto &thread : threads)
        thread.join();
    std::printf("%d %d\n", n_turns, n_writes);
}
