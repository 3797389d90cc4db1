/* SPDX-License-Identifier: MIT */
/*
 * victim_cxx_locks.cpp - uses the locks of the C++ library; its output must not depend on the profiler. With an
 * argument two threads wait for each other until the standard input ends.
 */
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <queue>
#include <shared_mutex>
#include <thread>
#include <unistd.h>
#include <vector>

static std::mutex queue_mutex;
static std::condition_variable not_empty;
static std::queue<int> jobs;
static bool closed, was_waited_for;
static std::shared_mutex book_mutex;
static std::vector<long> book(20000);
static long n_written;
static std::recursive_timed_mutex timed;
static long n_timed;

extern "C" __attribute__((noinline)) void post_job(int job)
{
    std::lock_guard<std::mutex> lock(queue_mutex);
    jobs.push(job);
    if (jobs.size() % 100 == 50)
        std::this_thread::sleep_for(std::chrono::milliseconds(1)); /* let them wait for this lock */
    not_empty.notify_one();
}

extern "C" __attribute__((noinline)) bool take_job(int &job)
{
    std::unique_lock<std::mutex> lock(queue_mutex);
    was_waited_for |= jobs.empty();
    not_empty.wait(lock, [] { return closed || !jobs.empty(); });
    if (jobs.empty())
        return false;
    job = jobs.front();
    jobs.pop();
    return true;
}

/* A thread waits for a job, or has one. */
static bool is_waited_for()
{
    std::lock_guard<std::mutex> lock(queue_mutex);
    return was_waited_for;
}

extern "C" __attribute__((noinline)) void write_book(int job)
{
    std::unique_lock<std::shared_mutex> lock(book_mutex);
    for (auto &entry : book)
        entry += job;
    if (++n_written % 100 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(200)); /* let them wait to read */
}

extern "C" __attribute__((noinline)) long read_book(int job)
{
    std::shared_lock<std::shared_mutex> lock(book_mutex);
    return book[(size_t)job % book.size()];
}

extern "C" __attribute__((noinline)) void count_timed()
{
    std::unique_lock<std::recursive_timed_mutex> lock(timed, std::chrono::seconds(60));
    std::lock_guard<std::recursive_timed_mutex> again(timed);
    n_timed++;
}

static std::mutex accounts, ledger;
static std::atomic<int> n_holders;

static void lock_both(std::mutex &first, std::mutex &second)
{
    std::lock_guard<std::mutex> one(first);
    for (n_holders++; n_holders < 2;)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard<std::mutex> other(second);
}

extern "C" __attribute__((noinline)) void transfer()
{
    lock_both(accounts, ledger);
}

extern "C" __attribute__((noinline)) void audit()
{
    lock_both(ledger, accounts);
}

static void wait_for_each_other()
{
    char byte;
    std::thread(transfer).detach();
    std::thread(audit).detach();
    while (read(0, &byte, 1) > 0)
        ;
    _exit(0);
}

int main(int argc, char **)
{
    if (argc > 1)
        wait_for_each_other();
    std::vector<std::thread> workers;
    for (int i = 0; i < 6; i++)
        workers.emplace_back([] {
            int job = 0;
            long sum = 0;
            while (take_job(job)) {
                write_book(job);
                for (int n = 0; n < 5; n++)
                    sum += read_book(job);
                count_timed();
            }
            if (sum < 0)
                std::puts("never");
        });
    while (!is_waited_for())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 20000; i++) {
        if (i % 500 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(2)); /* let them wait for a job */
        post_job(i % 7);
    }
    {
        std::lock_guard<std::mutex> lock(queue_mutex);
        closed = true;
    }
    not_empty.notify_all();
    for (auto &worker : workers)
        worker.join();
    std::printf("%ld %ld\n", book[0], n_timed);
}
