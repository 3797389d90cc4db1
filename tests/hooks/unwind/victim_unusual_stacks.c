/* SPDX-License-Identifier: MIT */
/*
 * victim_unusual_stacks HOW - allocates on unusual stacks: in fibers, some of them small, on a signal stack, in a
 * thread that libc does not know, in a handler that interrupts an allocation, below code without unwind data. Prints
 * its own counts.
 */
#include "../../support/tally.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { IN_FIBER, IN_HANDLER, IN_CLONE, IN_JIT, IN_MAIN, N_FUNCTIONS };
static struct tally book[N_FUNCTIONS] = {[IN_FIBER] = {.function = "make_in_fiber"},
                                         [IN_HANDLER] = {.function = "make_in_handler"},
                                         [IN_CLONE] = {.function = "make_in_clone"},
                                         [IN_JIT] = {.function = "make_in_jit"},
                                         [IN_MAIN] = {.function = "make_in_main"}};

#define MAKE(name, which)                               \
    NOINLINE struct block *name(size_t n)               \
    {                                                   \
        return tally_alloc(&book[which], malloc(n), n); \
    }
MAKE(make_in_fiber, IN_FIBER)
MAKE(make_in_handler, IN_HANDLER)
MAKE(make_in_clone, IN_CLONE)
MAKE(make_in_jit, IN_JIT)
MAKE(make_in_main, IN_MAIN)

static void release(struct block *b)
{
    tally_free(b->owner, b->n_bytes);
    free(b);
}

static ucontext_t main_context, fiber_contexts[8];
enum { PAGE = 4096 };
static char fiber_stacks[9][64 << 10] __attribute__((aligned(PAGE)));

static void fiber(int self)
{
    for (int i = 0; i < 200; i++) {
        struct block *b = make_in_fiber(32 + (size_t)i);
        swapcontext(&fiber_contexts[self], &main_context);
        release(b);
    }
    make_in_fiber(16);
}

/* Each stack has a page without access right below. */
static void run_fibers(size_t n_bytes)
{
    release(make_in_main(1)); /* so that the loader finds these functions on the thread's stack */
    for (int i = 0; i < 8; i++) {
        char *stack = fiber_stacks[i + 1] - n_bytes;
        mprotect(stack - PAGE, PAGE, PROT_NONE);
        getcontext(&fiber_contexts[i]);
        fiber_contexts[i].uc_stack.ss_sp = stack;
        fiber_contexts[i].uc_stack.ss_size = n_bytes;
        fiber_contexts[i].uc_link = &main_context;
        makecontext(&fiber_contexts[i], (void (*)(void))fiber, 1, i);
    }
    for (int turn = 0; turn < 201; turn++)
        for (int i = 0; i < 8; i++)
            swapcontext(&main_context, &fiber_contexts[i]);
}

static void handle(int signal)
{
    release(make_in_handler(100));
}

static void take_signals_on_another_stack(void)
{
    static char stack[64 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR2, &action, NULL);
    for (int i = 0; i < 1000; i++)
        raise(SIGUSR2);
}

/* The real malloc behind the profiler is one that may be interrupted (bump.c). */
static void be_interrupted(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 100000; i++) {
        struct block *b = make_in_main(16 + (size_t)i % 100);
        if (i % 1000)
            release(b);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    atomic_store(&book[IN_HANDLER].alloc_objects, 0); /* events inside an event of main are not counted */
    atomic_store(&book[IN_HANDLER].alloc_bytes, 0);
    atomic_store(&book[IN_HANDLER].free_objects, 0);
    atomic_store(&book[IN_HANDLER].free_bytes, 0);
}

static int cloned(void *arg)
{
    for (int i = 0; i < 1000; i++)
        release(make_in_clone(50));
    make_in_clone(60);
    return 0;
}

static void run_clone(void)
{
    static char stack[256 << 10] __attribute__((aligned(16)));
    /* The clone shares memory and even the thread-local storage of its creator, which does not run meanwhile. */
    int pid = clone(cloned, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL), status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        abort();
}

static void called_by_jit(void)
{
    for (int i = 0; i < 100; i++)
        release(make_in_jit(50));
    make_in_jit(60);
}

/* The frame pointer has a number there, and no address. */
static void run_jit(void)
{
#if defined(__x86_64__)
    static const unsigned char code[] = {0x55, 0xbd, 16, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3}; /* call *%rdi with rbp 16 */
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    ((void (*)(void (*)(void)))page)(called_by_jit);
#else
    called_by_jit();
#endif
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "fibers") == 0)
        run_fibers(60 << 10);
    else if (strcmp(how, "small_fibers") == 0)
        run_fibers(PAGE);
    else if (strcmp(how, "altstack") == 0)
        take_signals_on_another_stack();
    else if (strcmp(how, "interrupted") == 0)
        be_interrupted();
    else if (strcmp(how, "clone") == 0)
        run_clone();
    else if (strcmp(how, "jit") == 0)
        run_jit();
    else
        return 2;
    tally_print(book, N_FUNCTIONS);
    return 0;
}
