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

NOINLINE void holds_long()
{
    absl::MutexLock guard(&lock);
    us(1000);
    n_turns++;
}

NOINLINE int holds_short()
{
    absl::MutexLock guard(&lock);
    return n_turns;
}

NOINLINE void spins_long()
{
    absl::base_internal::SpinLockHolder guard(&spin);
    us(5000);
    n_turns++;
}

NOINLINE int spins_short()
{
    absl::base_internal::SpinLockHolder guard(&spin);
    return n_turns;
}

NOINLINE void writes()
{
    absl::WriterMutexLock guard(&shared);
    us(1000);
    n_writes++;
}

NOINLINE int reads()
{
    absl::ReaderMutexLock guard(&shared);
    us(100);
    return n_writes;
}

NOINLINE void wants_it_made()
{
    absl::call_once(made, [] { us(50000); });
    NO_TAIL_CALL();
}

NOINLINE void is_idle()
{
    absl::MutexLock guard(&queue);
    while (!n_work)
        has_work.Wait(&queue);
    n_work--;
}

NOINLINE void gives_up()
{
    absl::MutexLock guard(&queue);
    while (!has_work.WaitWithTimeout(&queue, absl::Milliseconds(20)))
        ;
}

static bool is_wanted(int *number)
{
    return *number == 1;
}

NOINLINE void waits_for()
{
    queue.LockWhen(absl::Condition(is_wanted, &wanted));
    queue.Unlock();
}

NOINLINE void waits_for_the_end()
{
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
                holds_short();
            next.Block();
            for (int turn = 0; i == 0 && turn < 150; turn++)
                writes(), us(50);
            for (stage += i == 0; stage < 2;)
                reads();
            wants_it_made();
            spinning.Block();
            for (int turn = 0; i == 0 && turn < 60; turn++)
                spins_long();
            for (stage += i == 0; stage < 3; us(200))
                spins_short();
        });
    threads.emplace_back([] {
        for (int i = 0; i < 10; i++)
            is_idle();
    });
    threads.emplace_back(waits_for);
    threads.emplace_back(waits_for_the_end);
    gives_up();
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
