/* SPDX-License-Identifier: MIT */
/*
 * victim_moves above|below - a fiber stops in the middle of malloc and continues in another thread; afterwards both
 * threads allocate. The fiber's stack lies above or below that of the first thread. Prints its own counts.
 * libbehind.so, which is preloaded behind the profiler, calls leave() in malloc.
 */
#include "../../support/tally.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { IN_FIBER, IN_FIRST, IN_SECOND, N_FUNCTIONS };
static struct tally book[N_FUNCTIONS] = {[IN_FIBER] = {.function = "make_in_fiber"},
                                         [IN_FIRST] = {.function = "make_in_first"},
                                         [IN_SECOND] = {.function = "make_in_second"}};

#define MAKE(name, which)                        \
    NOINLINE void name(size_t n)                 \
    {                                            \
        tally_alloc(&book[which], malloc(n), n); \
        __asm__ volatile("" ::: "memory");       \
    }
MAKE(make_in_fiber, IN_FIBER)
MAKE(make_in_first, IN_FIRST)
MAKE(make_in_second, IN_SECOND)

enum { STACK_BYTES = 512 << 10, BLOCK_BYTES = 1 << 20, N_BLOCKS = 50 };
static ucontext_t first_context, second_context, fiber_context;
static void (**call_in_malloc)(void);
static bool fiber_ended;

static void leave(void)
{
    swapcontext(&fiber_context, &first_context);
}

static void fiber(void)
{
    make_in_fiber(BLOCK_BYTES); /* draws the countdown to the next sample */
    *call_in_malloc = leave;
    make_in_fiber(20); /* starts in the first thread, ends in the second one */
    fiber_ended = true;
}

static void *second(void *unused)
{
    swapcontext(&second_context, &fiber_context);
    for (int i = 0; i < N_BLOCKS; i++)
        make_in_second(BLOCK_BYTES);
    return unused;
}

static void *first(void *unused)
{
    swapcontext(&first_context, &fiber_context);
    pthread_t thread;
    if (fiber_ended || pthread_create(&thread, NULL, second, NULL) || pthread_join(thread, NULL) || !fiber_ended)
        abort();
    for (int i = 0; i < N_BLOCKS; i++)
        make_in_first(BLOCK_BYTES);
    return unused;
}

int main(int argc, char **argv)
{
    bool above = argc > 1 && strcmp(argv[1], "above") == 0;
    call_in_malloc = (void (**)(void))dlsym(RTLD_DEFAULT, "call_in_malloc");
    char *arena = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!call_in_malloc || arena == MAP_FAILED)
        return 2;
    getcontext(&fiber_context);
    fiber_context.uc_stack.ss_sp = arena + (above ? STACK_BYTES : 0);
    fiber_context.uc_stack.ss_size = STACK_BYTES;
    fiber_context.uc_link = &second_context;
    makecontext(&fiber_context, fiber, 0);
    pthread_attr_t attr;
    pthread_t thread;
    if (pthread_attr_init(&attr) || pthread_attr_setstack(&attr, arena + (above ? 0 : STACK_BYTES), STACK_BYTES) ||
        pthread_create(&thread, &attr, first, NULL) || pthread_join(thread, NULL))
        abort();
    tally_print(book, N_FUNCTIONS);
    return 0;
}
