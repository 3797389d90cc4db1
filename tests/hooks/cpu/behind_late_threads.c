/* SPDX-License-Identifier: MIT */
/*
 * behind_late_threads.c - preloaded behind the profiler: no thread runs before LATE_THREADS threads were created, as on
 * a machine that is so busy that their creator comes first. Without LATE_THREADS every thread runs at once.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static _Atomic int n_created, n_wanted;

struct start {
    void *(*run)(void *);
    void *arg;
};

static void *begin_late(void *at)
{
    struct start start = *(struct start *)at;
    struct timespec pause = {0, 1000000};
    free(at);
    while (n_created < n_wanted)
        nanosleep(&pause, NULL);
    return start.run(start.arg);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*run)(void *), void *arg)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    struct start *start = malloc(sizeof *start);
    const char *wanted = getenv("LATE_THREADS");
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    *start = (struct start){run, arg};
    n_wanted = wanted ? atoi(wanted) : 0;
    n_created++;
    return next(thread, attributes, begin_late, start);
}
