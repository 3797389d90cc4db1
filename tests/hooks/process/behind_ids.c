/* SPDX-License-Identifier: MIT */
/*
 * behind_ids.c - preloaded behind the profiler: while setuid runs, another thread of the program creates a thread.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

static void *end_at_once(void *unused)
{
    return unused;
}

__attribute__((visibility("default"))) int setuid(uid_t user)
{
    pthread_t thread;
    int (*next)(uid_t);
    *(void **)&next = dlsym(RTLD_NEXT, "setuid");
    if (!pthread_create(&thread, NULL, end_at_once, NULL))
        pthread_join(thread, NULL);
    return next(user);
}
