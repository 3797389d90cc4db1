/* SPDX-License-Identifier: MIT */
/*
 * steps.c - walks the stack of a program after each of its instructions, as a sample of CPU time there would, and
 * compares the walk with the calls that the program made. To be preloaded into a program with one thread.
 *
 * The processor traps after each instruction (trap flag), and the handler of SIGTRAP walks. The truth comes from the
 * instructions: one that puts the address behind itself on the stack is a call, and a call is over when the stack
 * pointer has passed that place. Calls from before the first step are not known, so the root end of a walk is checked
 * by its last frame only.
 *
 * DP_STEPS in the environment: the number of instructions from main on; those before, of the loader and of
 * constructors, are counted apart. Prints `name value unit` lines on standard error.
 */
#include "host/api/recording.h"
#include "host/objects/frames.h"
#include "host/unwind/unwind.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

enum { TRAP_FLAG = 0x100, CALLS_MAX = 4096, INSTRUCTION_MAX = 15, SHOWN_MAX = 10 };

static struct call {
    uintptr_t slot, ra;
} calls[CALLS_MAX];
static unsigned n_calls;
static uintptr_t last_pc, last_sp, main_start;
static void *scratch;

struct sum {
    uint64_t n, n_whole, n_equal, n_frames;
};
static struct sum of_start, of_program, *now = &of_start;
static uint64_t n_left;
static unsigned n_shown;

static void follow(uintptr_t pc, uintptr_t sp)
{
    while (n_calls && calls[n_calls - 1].slot < sp)
        n_calls--;
    uintptr_t top = sp == last_sp - 8 ? *(const uintptr_t *)sp : 0;
    bool follows = top > last_pc && top <= last_pc + INSTRUCTION_MAX;
    if (follows && !(pc > last_pc && pc <= last_pc + INSTRUCTION_MAX) && n_calls < CALLS_MAX)
        calls[n_calls++] = (struct call){sp, top};
    last_pc = pc;
    last_sp = sp;
}

/* Whether the walk has the calls under way. */
static bool is_equal(const struct dp_stack *stack)
{
    if (stack->depth < n_calls + 1 && stack->depth < dp_unwind_depth())
        return false;
    for (uint32_t i = 1; i < stack->depth && i <= n_calls; i++)
        if (dp_frame_get(stack->frames[i])->pc != calls[n_calls - i].ra - 1)
            return false;
    return true;
}

static void print_sum(const char *name, const struct sum *sum)
{
    double n = sum->n ? (double)sum->n : 1;
    dprintf(2, "steps_%s_n %llu instructions\n", name, (unsigned long long)sum->n);
    dprintf(2, "steps_%s_whole %.4f %%\n", name, 100 * (double)sum->n_whole / n);
    dprintf(2, "steps_%s_equal %.4f %%\n", name, 100 * (double)sum->n_equal / n);
    dprintf(2, "steps_%s_depth %.1f frames\n", name, (double)sum->n_frames / n);
}

static void show(const struct dp_stack *stack, uintptr_t pc)
{
    if (now != &of_program || n_shown++ >= SHOWN_MAX)
        return;
    dprintf(2, "# at %#lx: depth %u%s, %u calls known\n", (unsigned long)pc, stack->depth, stack->cut ? ", cut" : "",
            n_calls);
}

static void on_step(int sig, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct dp_interrupted at = {(uintptr_t)r[REG_RIP], (uintptr_t)r[REG_RSP], (uintptr_t)r[REG_RBP], 0};
    struct dp_stack stack;
    (void)sig, (void)info;
    follow(at.pc, at.sp);
    if (at.pc == main_start)
        now = &of_program;
    dp_unwind_walk_interrupted(0, scratch, true, &at, &stack);
    bool equal = is_equal(&stack);
    now->n++;
    now->n_whole += !stack.cut;
    now->n_equal += equal;
    now->n_frames += stack.depth;
    if (stack.cut || !equal)
        show(&stack, at.pc);
    if (now == &of_program && !--n_left)
        r[REG_EFL] &= ~TRAP_FLAG;
}

/* Tells where main is. */
__attribute__((visibility("default"))) int __libc_start_main(int (*run)(int, char **, char **), int argc, char **argv,
                                                             void (*init)(void), void (*fini)(void),
                                                             void (*loader_fini)(void), void *stack_end)
{
    __typeof__(&__libc_start_main) real = (__typeof__(real))dlsym(RTLD_NEXT, "__libc_start_main");
    main_start = (uintptr_t)run;
    return real(run, argc, argv, init, fini, loader_fini, stack_end);
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    struct dp_config conf;
    const char *text = getenv("DP_STEPS");
    n_left = text ? strtoull(text, NULL, 10) : 100000;
    dp_config_init(&conf);
    if (dp_record_init(&conf) || !(scratch = dp_mem_map(dp_page_ceil(dp_unwind_scratch_bytes()))))
        abort();
    sigaction(SIGTRAP, &action, NULL);
    __asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" : : "i"(TRAP_FLAG) : "cc", "memory");
}

__attribute__((destructor)) static void end(void)
{
    __asm__ volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq" : : "i"(~TRAP_FLAG) : "cc", "memory");
    print_sum("start", &of_start);
    print_sum("program", &of_program);
}
