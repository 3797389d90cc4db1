/* SPDX-License-Identifier: MIT */
/*
 * victim_traces [PLUGIN] - four threads, each of which works for a trace of its own, published as OTEP 4947 says: by a
 * variable of the program, or of a plugin that it opens when the threads run already. Thread i has the trace id i + 1,
 * in each byte, and the span id 16 * (i + 1).
 *
 * Rounds of blocks of 1000 + i bytes, one a millisecond, until standard input ends; then exactly 50 blocks of 2000 + i
 * bytes, one wait for a mutex that the main thread holds, and 40 ms of CPU time. Then 50 blocks of 3000 + i bytes while
 * the record is not valid, 50 of 4000 + i bytes with a record that was unmapped, and 50 of 5000 + i bytes without a
 * record.
 */
#include "../../support/locks.h"
#include "otel_writer.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/mman.h>

enum { THREADS = 4, BLOCKS = 50, CPU_NS = 40000000 };

_Thread_local struct otel_record *volatile otel_thread_ctx_v1;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static _Atomic int tids[THREADS];
static _Atomic bool input_ended;
static void (*plugin_attach)(struct otel_record *, uint8_t, uint8_t);

__attribute__((noinline)) void *make_block(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

static void make_blocks(size_t n)
{
    for (int k = 0; k < BLOCKS; k++)
        free(make_block(n));
}

static void attach(struct otel_record *record, size_t i)
{
    uint8_t trace = (uint8_t)(i + 1), span = (uint8_t)(16 * (i + 1));
    if (plugin_attach)
        plugin_attach(record, trace, span);
    else if (record)
        attach_context(record, trace, span);
    else
        otel_thread_ctx_v1 = NULL;
}

__attribute__((noinline)) void burn(void)
{
    struct timespec t;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec == 0 && t.tv_nsec < CPU_NS);
}

static void *work(void *arg)
{
    size_t i = (size_t)arg;
    struct otel_record *record = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_barrier_wait(&barrier); /* the threads are there */
    pthread_barrier_wait(&barrier); /* the plugin is open */
    attach(record, i);
    while (!input_ended) {
        free(make_block(1000 + i));
        usleep(1000);
    }
    make_blocks(2000 + i);
    tids[i] = (int)syscall(SYS_gettid);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    burn();
    record->valid = 0;
    make_blocks(3000 + i);
    record->valid = 1;
    munmap(record, 4096);
    make_blocks(4000 + i);
    attach(NULL, i);
    make_blocks(5000 + i);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    pthread_barrier_wait(&barrier);
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (plugin)
        *(void **)&plugin_attach = dlsym(plugin, "plugin_attach");
    if (argc > 1 && !plugin_attach)
        return 1;
    pthread_barrier_wait(&barrier);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    poll(&input, 1, -1);
    pthread_mutex_lock(&mutex);
    input_ended = true;
    for (int i = 0; i < THREADS; i++)
        while (!sleeps(tids[i]))
            usleep(100);
    usleep(5000);
    pthread_mutex_unlock(&mutex);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
