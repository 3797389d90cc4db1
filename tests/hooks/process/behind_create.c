/* SPDX-License-Identifier: MIT */
/*
 * behind_create.c - preloaded behind the profiler: pthread_create returns 20 ms after the new thread began, as on a
 * busy machine. By then that thread may have ended.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*start)(void *), void *arg)
{
    struct timespec pause = {0, 20000000};
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    int err = next(thread, attributes, start, arg);
    nanosleep(&pause, NULL);
    return err;
}
