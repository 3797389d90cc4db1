/* SPDX-License-Identifier: MIT */
/*
 * victim_edges HOW - allocates where a walk comes to the end of a stack, of mapped memory, or of code with unwind data;
 * prints its counts.
 */
#include "../../support/tally.h"

#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

enum { HERE, N_FUNCTIONS, PAGE = 4096 };
static struct tally book[N_FUNCTIONS] = {[HERE] = {.function = "make_here"}};

NOINLINE struct block *make_here(size_t n)
{
    return tally_alloc(&book[HERE], malloc(n), n);
}

NOINLINE void make_some(void)
{
    for (size_t i = 0; i < 3; i++) {
        struct block *b = make_here(20 + i);
        tally_free(b->owner, b->n_bytes);
        free(b);
    }
}

/* ---- far from the top ------------------------------------------------------------------------------------------- */

NOINLINE void recurse(int n)
{
    char room[4000];
    __asm__ volatile("" ::"r"(room) : "memory");
    if (n > 0)
        recurse(n - 1);
    if (n % 100 == 0)
        make_some();
    __asm__ volatile("" ::"r"(room) : "memory"); /* no tail call */
}

NOINLINE void far_below(size_t n_bytes)
{
    volatile char *room = alloca(n_bytes);
    room[0] = 1;
    make_some();
    room[n_bytes - 1] = 2;
}

static void *go_far(void *arg)
{
    recurse(3000); /* 12 MB */
    far_below(9 << 20);
    recurse(300);
    far_below(1000);
    return NULL;
}

static void in_a_thread(size_t stack_bytes, void *(*start)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    if (pthread_attr_setstacksize(&attr, stack_bytes) || pthread_create(&thread, &attr, start, arg) ||
        pthread_join(thread, NULL))
        abort();
}

/* Executes itself with an unlimited stack. */
static void be_unlimited(char **argv)
{
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    rlim_t wanted = limit.rlim_max == RLIM_INFINITY ? RLIM_INFINITY : limit.rlim_max;
    if (limit.rlim_cur != wanted) {
        limit.rlim_cur = wanted;
        if (!setrlimit(RLIMIT_STACK, &limit))
            execv("/proc/self/exe", argv);
        abort();
    }
    go_far(NULL);
    limit.rlim_cur = 64 << 20;
    setrlimit(RLIMIT_STACK, &limit);
    go_far(NULL);
}

static void *make_a_few(void *arg)
{
    make_some();
    return NULL;
}

static void be_tiny(void)
{
    for (int i = 0; i < 50; i++)
        in_a_thread(16384 + 4096 * (size_t)(i % 3), make_a_few, NULL);
}

/* ---- stacks that come and go ------------------------------------------------------------------------------------ */

static ucontext_t outside, fiber;

static void on_fiber(int n)
{
    recurse(n);
    make_some();
}

/* Maps pages with unmapped pages on both sides, again and again at one address. In between the pages are unmapped, and
 * a walk on another stack may have cached them. */
static void come_and_go(void)
{
    size_t n_bytes = 64 << 10;
    char *around = mmap(NULL, n_bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *stack = around + PAGE;
    for (int i = 0; i < 300; i++) {
        mmap(stack, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        memset(stack, i, n_bytes);
        getcontext(&fiber);
        fiber.uc_stack.ss_sp = stack;
        fiber.uc_stack.ss_size = n_bytes - (size_t)(i % 7) * 16;
        fiber.uc_link = &outside;
        makecontext(&fiber, (void (*)(void))on_fiber, 1, i % 9);
        swapcontext(&outside, &fiber);
        mmap(stack, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        make_some();
    }
}

/* ---- jumps ------------------------------------------------------------------------------------------------------ */

static jmp_buf out;

void jump(int n);
static void (*volatile jump_on)(int) = jump; /* a direct call looks like an endless recursion to compilers */

NOINLINE void jump(int n)
{
    make_some();
    if (n > 0)
        jump_on(n - 1);
    else
        longjmp(out, 1);
    make_some();
}

static void jump_out(void)
{
    for (volatile int i = 0; i < 200; i++) {
        if (!setjmp(out))
            jump(i % 20);
        make_some();
    }
}

/* ---- code without unwind data ----------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/*
 * call_on(fn, sp, fp): calls fn with these two registers and returns. It has no unwind data. The caller decides what
 * lies above sp, and so which return address a walk would read there.
 */
__asm__(".text\ncall_on:\n"
        "push %rbp\npush %rbx\nmov %rsp,%rbx\nmov %rsi,%rsp\nmov %rdx,%rbp\n"
        "call *%rdi\nmov %rbx,%rsp\npop %rbx\npop %rbp\nret\n");
void call_on(void (*fn)(void), void *sp, uintptr_t fp);

/* The same, with unwind data that say, wrongly, that its caller is found by the frame pointer. */
__asm__(".text\ncall_with_lies:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\npush %rbx\n.cfi_def_cfa_offset 24\nmov "
        "%rsp,%rbx\nsub $8,%rsp\n"
        "mov %rdx,%rbp\n.cfi_def_cfa %rbp,16\ncall *%rdi\nmov %rbx,%rsp\npop %rbx\npop %rbp\n.cfi_def_cfa "
        "%rsp,8\nret\n.cfi_endproc\n");
void call_with_lies(void (*fn)(void), void *unused, uintptr_t fp);

static void lie(void)
{
    char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 2 * PAGE, 2 * PAGE);
    uintptr_t here = (uintptr_t)&pages, page = (uintptr_t)pages;
    const uintptr_t lies[] = {0,
                              1,
                              8,
                              PAGE,
                              page,
                              page + 2 * PAGE - 8,
                              page + 2 * PAGE - 16,
                              page + 2 * PAGE - 3,
                              page - 16,
                              here,
                              here + 1,
                              here - 4096,
                              (uintptr_t)lie,
                              (uintptr_t)1 << 47,
                              0xffffffffff600000,
                              (uintptr_t)1 << 63,
                              UINTPTR_MAX - 15,
                              UINTPTR_MAX - 8,
                              UINTPTR_MAX};
    /* the same code again where there is no file */
    char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, (const void *)call_on, 64);
    for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
        call_with_lies(make_some, NULL, lies[i]);
        call_on(make_some, pages + 2 * PAGE, lies[i]); /* nothing above it at all */
        call_on(make_some, pages + 2 * PAGE - 64, lies[i]);
        ((void (*)(void (*)(void), void *, uintptr_t))code)(make_some, pages + 2 * PAGE, lies[i]);
        make_some();
    }
}
#else
static void lie(void) {}
#endif

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "far") == 0)
        in_a_thread(64 << 20, go_far, NULL);
    else if (strcmp(how, "unlimited") == 0)
        be_unlimited(argv);
    else if (strcmp(how, "tiny") == 0)
        be_tiny();
    else if (strcmp(how, "come_and_go") == 0)
        come_and_go();
    else if (strcmp(how, "jump") == 0)
        jump_out();
    else if (strcmp(how, "lie") == 0)
        lie();
    else
        return 2;
    make_some();
    tally_print(book, N_FUNCTIONS);
    return 0;
}
