/* SPDX-License-Identifier: MIT */
/*
 * shapes.c - makes stacks of every shape that C can make, each with a call of check() in its leaf. Built many times, by
 * both compilers, with and without optimisation and frame pointers.
 */
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

typedef void check_fn(const char *what);
static check_fn *check;

#define NOINLINE __attribute__((noinline, noclone))
#ifdef __clang__
#undef NOINLINE
#define NOINLINE __attribute__((noinline))
#endif
#define KEEP __asm__ volatile("" ::: "memory") /* no tail call here */

static NOINLINE int recursion(int n)
{
    if (n == 0) {
        check("recursion");
        return 1;
    }
    int r = recursion(n - 1);
    if (n % 3 == 0)
        r += recursion(n - 2);
    KEEP;
    return r;
}

static NOINLINE void with_alloca(unsigned n)
{
    char *p = alloca(n * 17 + 1);
    memset(p, 1, n);
    check("alloca");
    if (n)
        with_alloca(n - 1);
    check("alloca");
    KEEP;
    __asm__ volatile("" ::"r"(p));
}

static NOINLINE void over_aligned(unsigned n)
{
    _Alignas(64) char a[128];
    char *p = alloca(n * 8 + 1);
    memset(a, 2, sizeof a);
    __asm__ volatile("" ::"r"(p), "r"(a));
    check("over-aligned");
    if (n)
        over_aligned(n - 1);
    KEEP;
    __asm__ volatile("" ::"r"(p), "r"(a));
}

static NOINLINE void aligned_only(void)
{
    _Alignas(256) char a[512];
    __asm__ volatile("" ::"r"(a));
    check("aligned");
    KEEP;
    __asm__ volatile("" ::"r"(a));
}

struct big {
    char bytes[3000];
};
static NOINLINE int by_value(struct big b, long a1, long a2, long a3, long a4, long a5, long a6, long a7, long a8)
{
    check("many arguments");
    KEEP;
    return b.bytes[(a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8) % 3000];
}

static NOINLINE int huge_frame(void)
{
    volatile char a[300000];
    a[0] = 1;
    a[299999] = 2;
    check("huge frame");
    KEEP;
    return a[0];
}

static NOINLINE void tail_end(int n);
static NOINLINE void tail(int n)
{
    tail_end(n + 1);
}
static NOINLINE void tail_end(int n)
{
    check("tail call");
    if (n < 4)
        tail(n);
}

static jmp_buf back;
static NOINLINE __attribute__((noreturn)) void never_returns(void)
{
    check("called by the last instruction");
    longjmp(back, 1);
}
static NOINLINE void calls_last(void)
{
    check("before");
    never_returns();
}
static NOINLINE void jumps(void)
{
    for (volatile int i = 0; i < 3; i++) {
        if (!setjmp(back))
            calls_last();
        check("after longjmp");
    }
}

static int compare(const void *a, const void *b)
{
    check("callback");
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}
static NOINLINE void callbacks(void)
{
    int v[40], key = 7;
    for (int i = 0; i < 40; i++)
        v[i] = i * 7919 % 101;
    qsort(v, 40, sizeof *v, compare);
    (void)!bsearch(&key, v, 40, sizeof *v, compare);
    KEEP;
}

/* ---- assembly with unwind data ------------------------------------------------------------------------------------
 */

#if defined(__x86_64__)
#define ASM_FUNCTION(name, body)                                                                                       \
    __asm__(".text\n.type " name ",@function\n" name ":\n.cfi_startproc\n" body ".cfi_endproc\n.size " name ",.-" name \
            "\n")
ASM_FUNCTION("asm_pushes",
             "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbx,0\nsub $0x1230,%rsp\n"
             ".cfi_adjust_cfa_offset 0x1230\ncall *%rdi\nadd $0x1230,%rsp\n.cfi_adjust_cfa_offset -0x1230\n"
             ".cfi_remember_state\npop %rbx\n.cfi_def_cfa_offset 8\n.cfi_restore %rbx\nret\n.cfi_restore_state\nud2\n");
ASM_FUNCTION("asm_other_register",
             "push %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset %rbx,-16\nmov %rsp,%rbx\n"
             ".cfi_def_cfa_register %rbx\nsub $24,%rsp\nand $-64,%rsp\ncall *%rdi\nmov %rbx,%rsp\n"
             ".cfi_def_cfa_register %rsp\npop %rbx\n.cfi_def_cfa_offset 8\n.cfi_restore %rbx\nret\n");
ASM_FUNCTION("asm_clobbers_fp", "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\nmov $0x1234567,%ebp\n"
                                "call *%rdi\npop %rbp\n.cfi_def_cfa_offset 8\n.cfi_restore %rbp\nret\n");
ASM_FUNCTION("asm_expression",
             "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\nlea 16(%rsp),%rax\nsub $40,%rsp\n"
             "and $-32,%rsp\nmov %rax,(%rsp)\n.cfi_escape 0x0f,3,0x77,0,6\ncall *%rdi\nmov (%rsp),%rsp\n"
             ".cfi_def_cfa %rsp,0\nmov -16(%rsp),%rbp\nsub $8,%rsp\n.cfi_def_cfa_offset 8\n.cfi_restore %rbp\nret\n");
void asm_pushes(void (*)(void)), asm_other_register(void (*)(void)), asm_clobbers_fp(void (*)(void)),
    asm_expression(void (*)(void));
static void from_asm(void)
{
    check("called from assembly");
    KEEP;
}
static NOINLINE void assembly(void)
{
    asm_pushes(from_asm);
    asm_other_register(from_asm);
    asm_clobbers_fp(from_asm);
    asm_expression(from_asm);
    KEEP;
}
#else
static void assembly(void) {}
#endif

/* ---- signals --------------------------------------------------------------------------------------------------------
 */

static volatile sig_atomic_t n_ticks;

static void on_signal(int number)
{
    check("signal handler");
    n_ticks++;
    KEEP;
}

static NOINLINE int crunch(int n)
{
    int v[64];
    for (int i = 0; i < 64; i++)
        v[i] = (i * 7919 + n) % 251;
    int r = 0;
    for (int i = 0; i < 64; i++)
        r += (int)strtol("12345", NULL, 10) * v[i];
    r += n > 0 ? crunch(n - 1) : 0;
    KEEP;
    return r + abs(v[3]) + (int)strlen((const char *)v);
}

static NOINLINE void signals(int on_alternate, int ticks)
{
    static char alternate[65536];
    stack_t ss = {.ss_sp = alternate, .ss_size = sizeof alternate}, old;
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (on_alternate ? SA_ONSTACK : 0)}, was;
    sigaltstack(&ss, &old);
    sigaction(SIGUSR1, &sa, &was);
    raise(SIGUSR1);
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval every = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    n_ticks = 0;
    setitimer(ITIMER_REAL, &every, NULL);
    while (n_ticks < ticks) /* interrupted at any instruction */
        crunch(5);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGUSR1, &was, NULL);
    signal(SIGALRM, SIG_DFL);
    sigaltstack(&old, NULL);
}

/* ---- threads and fibers
 * ----------------------------------------------------------------------------------------------- */

static pthread_key_t key;
static void key_destructor(void *p)
{
    check("thread destructor");
}
static void cleanup(void *p)
{
    check("cleanup handler");
    KEEP;
}
static NOINLINE void ends_deep(int n)
{
    if (n == 0)
        pthread_exit(NULL);
    ends_deep(n - 1);
    KEEP;
}
static void *thread(void *arg)
{
    pthread_setspecific(key, arg);
    recursion(6);
    over_aligned(2);
    pthread_cleanup_push(cleanup, NULL);
    ends_deep(5);
    pthread_cleanup_pop(0);
    return NULL;
}
static NOINLINE void threads(void)
{
    pthread_t t;
    pthread_key_create(&key, key_destructor);
    for (int i = 0; i < 3; i++) {
        pthread_create(&t, NULL, thread, &t);
        pthread_join(t, NULL);
    }
    pthread_key_delete(key);
}

static ucontext_t outside, fiber;
static void fiber_main(void)
{
    recursion(4);
    swapcontext(&fiber, &outside);
    check("on a fiber");
}
static NOINLINE void fibers(void)
{
    char *stack = malloc(65536);
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = 65536;
    fiber.uc_link = &outside;
    makecontext(&fiber, fiber_main, 0);
    swapcontext(&outside, &fiber);
    check("between");
    swapcontext(&outside, &fiber);
    free(stack);
}

void run(check_fn *fn, int ticks)
{
    struct big b = {{0}};
    check = fn;
    recursion(9);
    with_alloca(5);
    over_aligned(3);
    aligned_only();
    by_value(b, 1, 2, 3, 4, 5, 6, 7, 8);
    huge_frame();
    tail(0);
    jumps();
    callbacks();
    assembly();
    signals(0, ticks);
    signals(1, ticks);
    threads();
    fibers();
    KEEP;
}
