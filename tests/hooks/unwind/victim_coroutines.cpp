/* SPDX-License-Identifier: MIT */
/*
 * victim_coroutines stackless|context - allocates in coroutines and prints its own counts. `stackless`: coroutines of
 * C++20, with frames on the heap, resumed from stacks of different depth. `context`: fibers of boost.context, whose
 * stacks lie right below that of the thread and are unmapped one by one. Exits with 77 without boost.context.
 */
extern "C" {
#include <pthread.h>
#include <sys/mman.h>
}
#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>
#if __has_include(<boost/context/fiber.hpp>) && defined(WITH_CONTEXT)
#include <boost/context/fiber.hpp>
#endif

#define NOINLINE __attribute__((noinline, noclone))

static int64_t n_objects, n_bytes;

extern "C" NOINLINE void make_in_coroutine(size_t n)
{
    void *volatile p = malloc(n);
    n_objects++;
    n_bytes += (int64_t)n;
    free(p);
}

/* ---- C++20 ------------------------------------------------------------------------------------------------------ */

struct task {
    struct promise_type {
        task get_return_object()
        {
            return task{std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() noexcept
        {
            return {};
        }
        std::suspend_always final_suspend() noexcept
        {
            return {};
        }
        void return_void() {}
        void unhandled_exception()
        {
            abort();
        }
    };
    std::coroutine_handle<promise_type> handle;
};

static task work(int turns)
{
    for (int i = 0; i < turns; i++) {
        make_in_coroutine(40 + (size_t)i);
        co_await std::suspend_always{};
    }
}

NOINLINE static void resume_at(int depth, std::coroutine_handle<> handle)
{
    if (depth)
        resume_at(depth - 1, handle);
    else
        handle.resume();
    __asm__ volatile("" ::: "memory");
}

static void *stackless(void *)
{
    for (int round = 0; round < 20; round++) {
        std::vector<task> tasks;
        for (int i = 0; i < 10; i++)
            tasks.push_back(work(i + 1));
        for (int turn = 0; turn < 12; turn++)
            for (size_t i = 0; i < tasks.size(); i++)
                if (!tasks[i].handle.done())
                    resume_at((turn * 7 + (int)i) % 20, tasks[i].handle);
        for (task &t : tasks)
            t.handle.destroy();
    }
    return nullptr;
}

/* ---- boost.context ---------------------------------------------------------------------------------------------- */

enum { FIBERS = 8, FIBER_BYTES = 64 << 10, THREAD_BYTES = 256 << 10 };
static char *arena;

#if defined(WITH_CONTEXT) && __has_include(<boost/context/fiber.hpp>)
namespace context = boost::context;

/* Fiber i has the stack that is i places below the thread's; it is unmapped as soon as the fiber ends. */
struct places {
    int i;
    context::stack_context allocate()
    {
        context::stack_context stack;
        stack.size = FIBER_BYTES;
        stack.sp = arena + (size_t)(FIBERS - i) * FIBER_BYTES;
        return stack;
    }
    void deallocate(context::stack_context &stack) noexcept
    {
        munmap((char *)stack.sp - stack.size, stack.size);
    }
};

static void *in_context(void *)
{
    std::vector<context::fiber> fibers;
    for (int i = 0; i < FIBERS; i++)
        fibers.emplace_back(std::allocator_arg, places{i}, [i](context::fiber &&caller) {
            for (int turn = 0; turn <= i; turn++) {
                make_in_coroutine(50 + (size_t)turn);
                caller = std::move(caller).resume();
            }
            return std::move(caller);
        });
    for (int turn = 0; turn < FIBERS + 1; turn++)
        for (context::fiber &fiber : fibers) {
            make_in_coroutine(30);
            if (fiber)
                fiber = std::move(fiber).resume();
        }
    return nullptr;
}
#else
static void *in_context(void *)
{
    exit(77);
}
#endif

int main(int argc, char **argv)
{
    bool with_stacks = argc > 1 && strcmp(argv[1], "context") == 0;
    size_t size = FIBERS * FIBER_BYTES + THREAD_BYTES;
    arena = (char *)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attr;
    pthread_t thread;
    if (arena == MAP_FAILED || pthread_attr_init(&attr) ||
        pthread_attr_setstack(&attr, arena + FIBERS * FIBER_BYTES, THREAD_BYTES) ||
        pthread_create(&thread, &attr, with_stacks ? in_context : stackless, nullptr) || pthread_join(thread, nullptr))
        abort();
    printf("make_in_coroutine %lld %lld 0 0\n", (long long)n_objects, (long long)n_bytes);
    return 0;
}
