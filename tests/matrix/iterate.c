/* SPDX-License-Identifier: MIT */
/*
 * iterate PLUGIN - combines the loader's lock and a mutex: some threads lock the mutex inside a callback of
 * dl_iterate_phdr, others allocate while they hold it, one opens and closes PLUGIN, one starts threads.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_TURNS = 300 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_long n_seen, n_made, n_opened, n_started;
static const char *plugin;

static int callback(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)info, (void)size, (void)arg;
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&n_seen, 1);
    pthread_mutex_unlock(&lock);
    return 1;
}

static void *iterate(void *arg)
{
    for (int i = 0; i < N_TURNS; i++)
        dl_iterate_phdr(callback, NULL);
    return arg;
}

static void *allocate(void *arg)
{
    for (int i = 0; i < N_TURNS; i++) {
        pthread_mutex_lock(&lock);
        for (int j = 0; j < 20; j++) {
            void *volatile p = malloc(100);
            free(p);
        }
        pthread_mutex_unlock(&lock);
        atomic_fetch_add(&n_made, 1);
    }
    return arg;
}

static void *reopen(void *arg)
{
    for (int i = 0; i < N_TURNS / 3; i++) {
        void *handle = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
        if (handle && !dlclose(handle))
            atomic_fetch_add(&n_opened, 1);
    }
    return arg;
}

static void *nothing(void *arg)
{
    void *volatile p = malloc(5000);
    free(p);
    return arg;
}

static void *start(void *arg)
{
    for (int i = 0; i < N_TURNS / 10; i++) {
        pthread_t thread;
        if (!pthread_create(&thread, NULL, nothing, NULL) && !pthread_join(thread, NULL))
            atomic_fetch_add(&n_started, 1);
    }
    return arg;
}

int main(int argc, char **argv)
{
    static void *(*const bodies[])(void *) = {iterate, allocate, allocate, reopen, iterate, start};
    pthread_t threads[6];
    if (argc < 2)
        return 2;
    plugin = argv[1];
    for (int i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, bodies[i], NULL);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    printf("seen %ld, made %ld, opened %ld, started %ld\n", atomic_load(&n_seen), atomic_load(&n_made),
           atomic_load(&n_opened), atomic_load(&n_started));
    return 0;
}
