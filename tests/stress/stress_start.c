/* SPDX-License-Identifier: MIT */
/*
 * Threads run hooks while the profiler starts: each must see either nothing or all of it. A thread that saw the pool of
 * scratch blocks before its key would write to key 0, which belongs to the host.
 */
#include "../support/totals.h"
#include "host/api/recording.h"
#include "host/thread/thread.h"
#include "stress.h"

#include <deltaprof/hooks.h>

enum { THREADS = 8, HOST_VALUE = 4711 };

static pthread_key_t host_key;
static atomic_uint n_running;
static atomic_bool started;

static void allocate_on(unsigned thread)
{
    CHECK(!pthread_setspecific(host_key, (void *)HOST_VALUE));
    struct dp_thread *self = dp_thread_self();
    uint64_t address = (uint64_t)(thread + 1) << 40;
    atomic_fetch_add(&n_running, 1);
    for (unsigned after = 0; after < 1000; after += atomic_load_explicit(&started, memory_order_relaxed)) {
        self->state = self->scratch ? self->state : DP_THREAD_NEW; /* like a new thread */
        deltaprof_thread.countdown = 0;
        deltaprof_thread.guard = 0;
        self->armed = 0;
        deltaprof_alloc(0, (void *)(address += 16), 100);
        CHECK(pthread_getspecific(host_key) == (void *)HOST_VALUE, "thread %u", thread);
    }
    CHECK(self->scratch || self->state != DP_THREAD_NEW);
}

static void *start(void *unused)
{
    static struct dp_config conf;
    dp_config_init(&conf);
    conf.heap_rate = 1;
    while (atomic_load(&n_running) < THREADS)
        sched_yield();
    CHECK(!dp_record_init(&conf));
    dp_record_tune(&conf, true);
    atomic_store_explicit(&started, true, memory_order_relaxed);
    return unused;
}

int main(void)
{
    pthread_t starter;
    CHECK(!pthread_key_create(&host_key, NULL));
    CHECK(!pthread_create(&starter, NULL, start, NULL));
    stress_threads(THREADS, allocate_on);
    pthread_join(starter, NULL);
    printf("%lld events after the start\n", (long long)totals().n);
    CHECK(totals().n > 0);
    return 0;
}
