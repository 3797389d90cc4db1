/* SPDX-License-Identifier: MIT */
/*
 * fork.c - keeps the library's threads out of sight while the program forks.
 *
 * CPython 3.12 and later ask the kernel for the number of threads after os.fork, and warn if there are several. The
 * library's own threads must not cause that warning. So if the process has only those beside the thread that forks,
 * they end before the fork. A pending call of the interpreter creates them again, but only after the interpreter has
 * counted. The interpreter may run pending calls before os.fork returns, in functions that the program registered for
 * after a fork. The call then registers itself again, until the function that called os.fork runs or has ended, for at
 * most WAIT_NS. Meanwhile no sampled allocation creates a thread.
 */
#include "python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

enum { FIRST_TO_WARN = 12, OURS_MOST = 2, CALLERS_MAX = 256 };

#define WAIT_NS INT64_C(1000000000)

static int (*add_pending_call)(int (*)(void *), void *);
static bool ended; /* written by the thread that forks, with the interpreter's lock; so are these two */
static const char *forked_in;
static int64_t forked_ns;

static bool forks; /* the threads have ended and were not created again */

/* This clock is read without the time stamp counter, which the program may have trapped (PR_SET_TSC). */
static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A directory's links are two and one for each thread. 0: not known. */
static unsigned n_threads(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) || st.st_nlink < 3 ? 0 : (unsigned)(st.st_nlink - 2);
}

static void set_forks(bool value)
{
    __atomic_store_n(&forks, value, __ATOMIC_RELAXED);
}

/* Whether the function that called os.fork has not returned. */
static bool runs(const char *frame)
{
    for (int i = 0; i < CALLERS_MAX && dp_python_plausible(frame) && frame != forked_in; i++)
        frame = dp_python_pointer(frame, dp_python.at.frame_previous);
    return frame == forked_in;
}

bool dp_python_is_forking(void)
{
    return __atomic_load_n(&forks, __ATOMIC_RELAXED) && forked_in && runs(dp_python_innermost());
}

/* Whether a function runs that it called. */
static bool is_inside(void)
{
    const char *frame = dp_python_innermost();
    return forked_in && frame != forked_in && runs(frame) && now_ns() - forked_ns <= WAIT_NS;
}

static int resume(void *unused)
{
    if (is_inside() && !add_pending_call(resume, unused))
        return 0;
    set_forks(false);
    deltaprof_resume();
    return 0;
}

static void before_fork(void)
{
    if (!deltaprof_has_threads()) /* under seccomp a system call may be fatal */
        return;
    unsigned n = n_threads();
    if (n < 2 || n > 1 + OURS_MOST || dp_python.finalizing())
        return;
    deltaprof_stop_agent();
    ended = true;
    forked_in = dp_python_innermost();
    forked_ns = now_ns();
    set_forks(true);
}

static void after_fork(void)
{
    if (ended && add_pending_call(resume, NULL)) {
        set_forks(false);
        deltaprof_resume();
    }
    ended = false;
}

static void in_child(void)
{
    ended = false;
    set_forks(false);
}

void dp_python_watch_forks(void)
{
    static bool watched;
    add_pending_call = (int (*)(int (*)(void *), void *))dlsym(RTLD_DEFAULT, "Py_AddPendingCall");
    if (dp_python.minor < FIRST_TO_WARN || !add_pending_call || watched)
        return;
    watched = !pthread_atfork(before_fork, after_fork, in_child);
}
