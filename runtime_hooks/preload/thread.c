/* SPDX-License-Identifier: MIT */
/*
 * thread.c - hooks of functions that create threads: the library's threads are created first, in the same call.
 *
 * Creating a thread takes locks of the loader, so no hook of malloc or of a lock may do it in a process with threads.
 * Here the program itself is going to take the same locks, so there is no new risk of a deadlock.
 *
 * A new thread passes through a function of this file, which has the library set it up before it runs the program's
 * function. That function is called by a jump, so its caller is libc, as always.
 *
 * pthread_cancel: libc installs the handler of its signal at the first call, over the one of CPU timers.
 *
 * If the program's thread cannot be created right after a thread of the library, the latter may have reached the limit
 * of threads. Then the library's thread is ended, and the program's call is repeated.
 */
#include "hook.h"

#include <pthread.h>
#include <sched.h>
#include <threads.h>

DP_HOOK int pthread_cancel(pthread_t thread);

static inline bool ours_came(void)
{
    return __builtin_expect(deltaprof_poll_wanted, 0) && deltaprof_before_thread_create();
}

/*
 * What a thread that is being created will run. A place is in use until the thread has read it: on a busy machine that
 * may be long after hundreds of others were created. There are as many places as the library has for threads, so each
 * thread that it knows has passed through here.
 */
enum { MOST_PLACES = 256 * 16 };

union start {
    void *(*run)(void *);
    thrd_start_t run_c11;
};
static struct place {
    unsigned char used;
    union start start;
    void *arg;
} places[MOST_PLACES] DP_LARGE;

/* NULL: no place is free, or the library does not set up new threads. Then the thread runs the program's function
 * directly. */
static struct place *take_place(union start start, void *arg)
{
    if (!deltaprof_thread_start_wanted())
        return NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct place *place = &places[i];
        if (__atomic_load_n(&place->used, __ATOMIC_RELAXED) || __atomic_exchange_n(&place->used, 1, __ATOMIC_ACQUIRE))
            continue;
        place->start = start;
        place->arg = arg;
        return place;
    }
    return NULL;
}

static void leave_place(struct place *place)
{
    __atomic_store_n(&place->used, 0, __ATOMIC_RELEASE);
}

static void *begin(void *at)
{
    struct place *place = at;
    void *(*run)(void *) = place->start.run, *arg = place->arg;
    leave_place(place);
    deltaprof_thread_start();
    return run(arg);
}

static int begin_c11(void *at)
{
    struct place *place = at;
    thrd_start_t run = place->start.run_c11;
    void *arg = place->arg;
    leave_place(place);
    deltaprof_thread_start();
    return run(arg);
}

/*
 * Defines a hook that creates a thread. The new thread first runs `function`, which sets up its signal stack and then
 * calls the program's function; if no place is free it is the program's function at once. MAKING(pthread_create, ...,
 * run, begin, (thread, attr, run, arg), 0) defines, if there is a place:
 *
 *     int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
 *     {
 *         struct place *place = take_place({.run = run}, arg);
 *         int result = real_pthread_create(thread, attr, begin, place);
 *         if (result != 0 && the agent's thread was created just now)
 *             result = real_pthread_create(...) again, without the agent      it may have been one thread too many
 *         if (result != 0)
 *             leave_place(place);
 *         return result;
 *     }
 */
#define MAKING(name, parameters, member, function, arguments, success)       \
    DP_HOOK int name parameters                                              \
    {                                                                        \
        bool ours = ours_came();                                             \
        struct place *place = take_place((union start){.member = run}, arg); \
        if (place) {                                                         \
            run = function;                                                  \
            arg = place;                                                     \
        }                                                                    \
        int result = DP_REAL(name) arguments;                                \
        if (__builtin_expect(result != success, 0) && ours) {                \
            deltaprof_stop_agent();                                          \
            result = DP_REAL(name) arguments;                                \
        }                                                                    \
        if (__builtin_expect(result != success, 0) && place)                 \
            leave_place(place);                                              \
        return result;                                                       \
    }

MAKING(pthread_create,
       (pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*run)(void *), void *restrict arg), run,
       begin, (thread, attr, run, arg), 0)
MAKING(thrd_create, (thrd_t * thread, thrd_start_t run, void *arg), run_c11, begin_c11, (thread, run, arg),
       thrd_success)

int pthread_cancel(pthread_t thread)
{
    int result = DP_REAL(pthread_cancel)(thread);
    deltaprof_thread_cancelled();
    return result;
}

/* Jumps to the real function, as the hook of syscall does (symbols.h): the last argument, if any, is on the stack. */
DP_HOOK int dp_clone(int (*run)(void *), void *stack, int flags, void *arg,
                     DP_CLONE_LIST(void *)) __asm__(DP_HOOK_NAME("clone"));

DP_DUE int clone_with_ours(int (*run)(void *), void *stack, int flags, void *arg, DP_CLONE_LIST(void *))
{
    deltaprof_before_thread_create();
    return DP_REAL(clone)(run, stack, flags, arg, DP_CLONE_LIST());
}

int dp_clone(int (*run)(void *), void *stack, int flags, void *arg, DP_CLONE_LIST(void *))
{
    if (__builtin_expect(deltaprof_poll_wanted, 0) && (flags & CLONE_THREAD))
        return clone_with_ours(run, stack, flags, arg, DP_CLONE_LIST());
    return DP_REAL(clone)(run, stack, flags, arg, DP_CLONE_LIST());
}
