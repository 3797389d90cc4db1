/* SPDX-License-Identifier: MIT */
/*
 * fork.c - keeps the library's threads out of sight while the program forks.
 *
 * CPython 3.12 and later ask the kernel for the number of threads after os.fork, and warn if there are several. The
 * library's own threads must not cause that warning. So where the process has no more than those beside the thread that
 * forks, they end before the fork. A pending call of the interpreter creates them again: it runs when os.fork has
 * returned.
 */
#include "python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>

enum { FIRST_TO_WARN = 12, OURS_MOST = 2 };

static int (*add_pending_call)(int (*)(void *), void *);
static bool ended; /* written by the thread that forks, with the interpreter's lock */

/* A directory's links are two and one for each thread. 0: not known. */
static unsigned n_threads(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) || st.st_nlink < 3 ? 0 : (unsigned)(st.st_nlink - 2);
}

static int resume(void *unused)
{
    (void)unused;
    deltaprof_resume();
    return 0;
}

static void before_fork(void)
{
    unsigned n = n_threads();
    if (n < 2 || n > 1 + OURS_MOST || dp_python.finalizing())
        return;
    deltaprof_stop_agent();
    ended = true;
}

static void after_fork(void)
{
    if (ended && add_pending_call(resume, NULL))
        deltaprof_resume();
    ended = false;
}

static void in_child(void)
{
    ended = false;
}

void dp_python_watch_forks(void)
{
    static bool watched;
    add_pending_call = (int (*)(int (*)(void *), void *))dlsym(RTLD_DEFAULT, "Py_AddPendingCall");
    if (dp_python.minor < FIRST_TO_WARN || !add_pending_call || watched)
        return;
    watched = !pthread_atfork(before_fork, after_fork, in_child);
}
