/* SPDX-License-Identifier: MIT */
/*
 * fibers - a coroutine runtime on ucontext. Stacks lie side by side in one mapping without guard pages, and some are
 * unmapped while their neighbours run. Each thread has a scheduler; coroutines may continue in another thread.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { N_FIBERS = 24, N_SCHEDULERS = 3, N_TURNS = 60, STACK = 64 << 10 };

struct fiber {
    ucontext_t context;
    ucontext_t *_Atomic back; /* where the scheduler continues */
    pthread_mutex_t lock;
    int turns, done;
    long sum;
    char *stack;
};

static struct fiber fibers[N_FIBERS];
static atomic_int n_done;

/* Another thread may continue the coroutine: no value of a thread is kept over the switch. */
__attribute__((noinline)) static void yield(struct fiber *f)
{
    swapcontext(&f->context, f->back);
}

__attribute__((noinline)) static void step(struct fiber *f, int depth)
{
    char *p = malloc((size_t)(depth * 37 + 1));
    p[0] = (char)depth;
    f->sum += p[0];
    if (depth)
        step(f, depth - 1);
    else
        yield(f);
    free(p);
}

static void body(unsigned high, unsigned low)
{
    struct fiber *f = (struct fiber *)((uintptr_t)high << 32 | low);
    for (int i = 0; i < N_TURNS; i++)
        step(f, i % 12);
    f->done = 1;
    yield(f);
}

static void *schedule(void *arg)
{
    ucontext_t here;
    unsigned at = (unsigned)(uintptr_t)arg;
    while (atomic_load(&n_done) < N_FIBERS) {
        struct fiber *f = &fibers[at++ % N_FIBERS];
        if (pthread_mutex_trylock(&f->lock))
            continue;
        if (!f->done) {
            f->back = &here;
            swapcontext(&here, &f->context);
            f->turns++;
            if (f->done) {
                munmap(f->stack, STACK);
                atomic_fetch_add(&n_done, 1);
            }
        }
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

int main(void)
{
    char *stacks = mmap(NULL, (size_t)N_FIBERS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t threads[N_SCHEDULERS];
    if (stacks == MAP_FAILED)
        return 3;
    for (int i = 0; i < N_FIBERS; i++) {
        struct fiber *f = &fibers[i];
        pthread_mutex_init(&f->lock, NULL);
        f->stack = stacks + (size_t)i * STACK;
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = f->stack;
        f->context.uc_stack.ss_size = STACK;
        makecontext(&f->context, (void (*)(void))body, 2, (unsigned)((uintptr_t)f >> 32), (unsigned)(uintptr_t)f);
    }
    for (uintptr_t i = 0; i < N_SCHEDULERS; i++)
        pthread_create(&threads[i], NULL, schedule, (void *)(i * 7));
    long sum = 0, turns = 0;
    for (int i = 0; i < N_SCHEDULERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N_FIBERS; i++) {
        sum += fibers[i].sum;
        turns += fibers[i].turns;
    }
    printf("sum %ld, turns %ld\n", sum, turns);
    return 0;
}
