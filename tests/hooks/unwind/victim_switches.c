/* SPDX-License-Identifier: MIT */
/*
 * victim_switches HOW - allocates on adjacent stacks without guard pages. Some of these stacks are unmapped while
 * unwinding from another stack still leads into them. Prints its own counts.
 *
 * One thread does all of it. Its stack is the top of one mapping; the stacks of its fibers lie right below:
 *
 *     [ fiber N-1 | ... | fiber 1 | fiber 0 | the thread's own stack ]
 */
#include "../../support/tally.h"

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { IN_FIBER, IN_THREAD, IN_CALLED, IN_SIGNAL_LIKE, N_FUNCTIONS };
static struct tally book[N_FUNCTIONS] = {[IN_FIBER] = {.function = "make_in_fiber"},
                                         [IN_THREAD] = {.function = "make_in_thread"},
                                         [IN_CALLED] = {.function = "make_in_called"},
                                         [IN_SIGNAL_LIKE] = {.function = "make_below_trampoline"}};

#define MAKE(name, which)                                          \
    NOINLINE void name(size_t n)                                   \
    {                                                              \
        struct block *b = tally_alloc(&book[which], malloc(n), n); \
        if (n % 2) {                                               \
            tally_free(b->owner, b->n_bytes);                      \
            free(b);                                               \
        }                                                          \
        __asm__ volatile("" ::: "memory");                         \
    }
MAKE(make_in_fiber, IN_FIBER)
MAKE(make_in_thread, IN_THREAD)
MAKE(make_in_called, IN_CALLED)
MAKE(make_below_trampoline, IN_SIGNAL_LIKE)

enum { FIBERS = 6, FIBER_BYTES = 64 << 10, THREAD_BYTES = 256 << 10 };
static char *arena;

static char *fiber_stack(int i)
{
    return arena + (size_t)(FIBERS - 1 - i) * FIBER_BYTES;
}

static char *fiber_top(int i)
{
    return fiber_stack(i) + FIBER_BYTES;
}

static void unmap_fiber(int i)
{
    if (munmap(fiber_stack(i), FIBER_BYTES))
        abort();
}

/* ---- calls on another stack ------------------------------------------------------------------------------------- */

/*
 * call_on(top, fn): calls fn on the stack whose upper end is top. The unwind data of call_on lead from that stack to
 * the caller's.
 * call_marked(fn): calls fn normally, but its own unwind data mark it as a signal frame, as those of stack switches in
 * some language runtimes do.
 */
void call_on(char *top, void (*fn)(void));
void call_marked(void (*fn)(void));
#if defined(__x86_64__)
__asm__(".text\n.type call_on, @function\ncall_on:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "mov %rdi, %rsp\ncall *%rsi\nmov %rbp, %rsp\n"
        "pop %rbp\n.cfi_def_cfa %rsp, 8\nret\n.cfi_endproc\n.size call_on, . - call_on\n"
        ".type call_marked, @function\ncall_marked:\n.cfi_startproc\n.cfi_signal_frame\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\ncall *%rdi\n"
        "pop %rbp\n.cfi_def_cfa %rsp, 8\nret\n.cfi_endproc\n.size call_marked, . - call_marked\n");
#elif defined(__aarch64__)
__asm__(".text\n.type call_on, %function\ncall_on:\n.cfi_startproc\n"
        "stp x29, x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset 29, -16\n.cfi_offset 30, -8\n"
        "mov x29, sp\n.cfi_def_cfa_register 29\nmov sp, x0\nblr x1\nmov sp, x29\n"
        "ldp x29, x30, [sp], #16\n.cfi_def_cfa 31, 0\nret\n.cfi_endproc\n.size call_on, . - call_on\n"
        ".type call_marked, %function\ncall_marked:\n.cfi_startproc\n.cfi_signal_frame\n"
        "stp x29, x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset 29, -16\n.cfi_offset 30, -8\n"
        "mov x29, sp\n.cfi_def_cfa_register 29\nblr x0\n"
        "ldp x29, x30, [sp], #16\n.cfi_def_cfa 31, 0\nret\n.cfi_endproc\n.size call_marked, . - call_marked\n");
#endif

static ucontext_t thread_context, called_context;

/* Runs on the stack of fiber 1, called from that of fiber 0, which is unmapped during swapcontext. */
static void innermost(void)
{
    for (size_t i = 0; i < 3; i++)
        make_in_called(40 + i);
    swapcontext(&called_context, &thread_context);
    for (size_t i = 0; i < 3; i++)
        make_in_called(50 + i);
    setcontext(&thread_context);
}

static void in_between(void)
{
    make_in_called(30);
    call_on(fiber_top(1), innermost);
}

static void call_across(void)
{
    volatile int turn = 0;
    getcontext(&thread_context);
    switch (turn++) {
    case 0:
        call_on(fiber_top(0), in_between);
        abort();
    case 1:
        unmap_fiber(0);
        make_in_thread(20);
        getcontext(&thread_context);
        if (turn++ == 2)
            setcontext(&called_context);
        break;
    }
    make_in_thread(21);
}

/* ---- fibers, each made by the one before, which is unmapped first ------------------------------------------------ */

static ucontext_t contexts[FIBERS];
static void make_fiber(int i);

static void fiber(int i)
{
    make_in_fiber(60 + (size_t)i);
    if (i + 1 < FIBERS)
        make_fiber(i + 1);
    for (size_t k = 0;; k++) {
        swapcontext(&contexts[i], &thread_context);
        make_in_fiber(70 + k);
    }
}

static void make_fiber(int i)
{
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = fiber_stack(i);
    contexts[i].uc_stack.ss_size = FIBER_BYTES;
    contexts[i].uc_link = &thread_context;
    makecontext(&contexts[i], (void (*)(void))fiber, 1, i);
}

static void run_fibers(void)
{
    make_fiber(0);
    for (int i = 0; i < FIBERS; i++) /* each fiber makes the next one and switches back */
        swapcontext(&thread_context, &contexts[i]);
    for (int gone = 0; gone < FIBERS; gone++) {
        for (int i = gone; i < FIBERS; i++)
            swapcontext(&thread_context, &contexts[i]);
        make_in_thread(22);
        unmap_fiber(gone);
        make_in_thread(23);
    }
}

/* ---- a switch by hand, as in libco ------------------------------------------------------------------------------ */

/* Pushes the callee-saved registers, stores the stack pointer in *from, continues at `to`. It has no unwind data. */
void hand_switch(void **from, void *to);
#if defined(__x86_64__)
__asm__(".text\n.type hand_switch, @function\nhand_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n.size hand_switch, . - hand_switch\n");
enum { SAVED_WORDS = 6 };
#elif defined(__aarch64__)
__asm__(".text\n.type hand_switch, %function\nhand_switch:\n"
        "sub sp, sp, #96\nstp x29, x30, [sp, #80]\nstp x19, x20, [sp]\nstp x21, x22, [sp, #16]\n"
        "stp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\nldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\n"
        "ldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "add sp, sp, #96\nret\n.size hand_switch, . - hand_switch\n");
#endif

static void *thread_sp, *hand_sp[2];

static void second_by_hand(void)
{
    for (size_t i = 0;; i++) {
        make_in_fiber(80 + i);
        hand_switch(&hand_sp[1], thread_sp);
    }
}

#if defined(__x86_64__)
static void returned_by_hand(void)
{
    abort();
}
#endif

/* Makes a stack on which hand_switch enters fn, with the frame pointer of stack_by_hand. */
static void *stack_by_hand(int i, void (*fn)(void))
{
    uintptr_t *sp = (uintptr_t *)fiber_top(i);
#if defined(__x86_64__)
    *--sp = (uintptr_t)returned_by_hand;
    *--sp = (uintptr_t)fn;
    *--sp = (uintptr_t)__builtin_frame_address(0);
    for (int k = 1; k < SAVED_WORDS; k++)
        *--sp = 0;
#elif defined(__aarch64__)
    *--sp = (uintptr_t)fn; /* the link register: the switch returns there */
    *--sp = (uintptr_t)__builtin_frame_address(0);
    for (int k = 0; k < 10; k++)
        *--sp = 0;
#endif
    return sp;
}

static void first_by_hand(void)
{
    hand_sp[1] = stack_by_hand(1, second_by_hand);
    for (size_t i = 0;; i++) {
        make_in_fiber(90 + i);
        hand_switch(&hand_sp[0], thread_sp);
    }
}

static void switch_by_hand(void)
{
    hand_sp[0] = stack_by_hand(0, first_by_hand);
    for (int i = 0; i < 4; i++) {
        hand_switch(&thread_sp, hand_sp[0]);
        hand_switch(&thread_sp, hand_sp[1]);
        make_in_thread(24);
    }
    unmap_fiber(0);
    for (int i = 0; i < 4; i++) {
        hand_switch(&thread_sp, hand_sp[1]);
        make_in_thread(25);
    }
}

/* ---- the mark of a signal frame --------------------------------------------------------------------------------- */

static void below_trampoline(void)
{
    for (size_t i = 0; i < 4; i++)
        make_below_trampoline(40 + i);
}

NOINLINE void calls_trampoline(void)
{
    for (int i = 0; i < 3; i++)
        call_marked(below_trampoline);
    __asm__ volatile("" ::: "memory");
}

static void (*body)(void);

static void *in_thread(void *unused)
{
    body();
    return unused;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    body = strcmp(how, "across") == 0   ? call_across
           : strcmp(how, "fibers") == 0 ? run_fibers
           : strcmp(how, "hand") == 0   ? switch_by_hand
           : strcmp(how, "marked") == 0 ? calls_trampoline
                                        : NULL;
    if (!body)
        return 2;
    arena = mmap(NULL, FIBERS * FIBER_BYTES + THREAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attr;
    pthread_t thread;
    if (arena == MAP_FAILED || pthread_attr_init(&attr) || pthread_attr_setstack(&attr, fiber_top(0), THREAD_BYTES) ||
        pthread_create(&thread, &attr, in_thread, NULL) || pthread_join(thread, NULL))
        abort();
    tally_print(book, N_FUNCTIONS);
    return 0;
}
