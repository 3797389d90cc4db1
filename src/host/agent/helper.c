/* SPDX-License-Identifier: MIT */
/*
 * host/agent/helper.c - runs one function at a time in a helper thread, which a hook of malloc can start.
 *
 * Why. In a process with several threads a hook of malloc must not call pthread_create: it takes locks of the loader,
 * and the thread in the hook may hold a lock that a thread inside the loader waits for (agent.c). For the same reason
 * the hook must not wait for a thread that calls it. A helper that waits for work would be a thread in every process,
 * also while the profiler is off.
 *
 * How. Where the program creates its first thread, prepare creates a joinable pthread on a stack of the profiler, which
 * ends at once and is never joined. So libc keeps its descriptor and its thread-local variables, but does not count it
 * as alive. run starts a kernel thread by clone(2), on the same stack and with the same thread pointer: one system
 * call, without a lock, an allocation or a wait. For libc this is the prepared pthread, so errno, malloc and locks that
 * name their owner work in it. It may enter the loader and create threads, because it holds no lock of the program, and
 * no thread waits for it.
 *
 * The thread's id. libc reads the id in the descriptor. At clone the kernel writes it there (CLONE_PARENT_SETTID), and
 * it clears it at the end of the thread (CLONE_CHILD_CLEARTID). libc does not publish the address. So the prepared
 * thread notes the words of its descriptor that have the value of its id; the one that is 0 after its end is the id.
 * While it is not 0, a helper is still on the stack, and run starts no other.
 *
 * The user's id. setuid in libc changes the ids of all threads that libc counts as alive; a helper is not one of them.
 * A helper begins with the ids of the program. If the program changes its ids while a helper runs, threads that the
 * helper creates may have the old ones: dp_agent_helper_has_rights tells the function, which then ends these threads.
 *
 * In a process with one thread run creates an ordinary thread instead: pthread_create is safe there at the edge of a
 * hook, and a cloned thread would not be, because libc leaves out its locks while it counts only one thread.
 *
 *     state     NONE --prepare--> PREPARING --> READY     a failure stays PREPARING, and is not tried again
 *     busy      0 --run--> 1 --the function has returned--> 0
 *
 * [READY] state publishes what is known of the prepared thread. [PLACES] prepared_tid publishes what that thread wrote.
 * [BUSY] busy is acquired before fn is written and released after fn has returned: else a helper could read the next
 * fn.
 */
#include "host/agent/helper.h"

#include "host/agent/alone.h"
#include "host/agent/spawn.h"
#include "host/thread/thread.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/text.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NONE, PREPARING, READY };
enum { STACK_BYTES = 256 << 10, SEARCHED_BYTES = 2048, PLACES = 8, GONE_NS = 1000000000, STATUS_BYTES = 2048 };

static struct {
    _Atomic uint32_t state; /* [READY] */
    _Atomic uint32_t busy;  /* 1: a helper runs. [BUSY] */
    _Atomic int32_t tid;    /* of the last helper */
    void (*fn)(void);       /* what it runs; written by the thread that has set `busy` */
    /* Of the prepared thread: */
    void *pointer, *stack;           /* its thread pointer; the top of its stack */
    _Atomic int32_t *id;             /* where libc keeps its id */
    _Atomic int32_t *places[PLACES]; /* where `id` may be: words of its descriptor that had its value */
    unsigned n_places;
    _Atomic uint32_t prepared_tid; /* 0: it has not noted these yet. [PLACES] */
} helper;

static void *thread_pointer(void)
{
#if defined(__x86_64__)
    void *pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
#else
    return __builtin_thread_pointer();
#endif
}

/* ---- the prepared thread ---------------------------------------------------------------------------------------- */

/*
 * What the prepared thread runs: notes where its id may be. Its descriptor usually lies at the end of the stack;
 * nothing beyond that is read.
 */
static void *run_once(void *stack_end)
{
    dp_thread_mark_own();
    int32_t tid = (int32_t)syscall(SYS_gettid);
    helper.pointer = thread_pointer();
    helper.stack = (void *)((uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)63);
    _Atomic int32_t *words = (_Atomic int32_t *)(uintptr_t)pthread_self();
    helper.n_places = 0;
    size_t n_bytes = (uintptr_t)stack_end - (uintptr_t)words;
    n_bytes = n_bytes < SEARCHED_BYTES ? n_bytes : SEARCHED_BYTES;
    for (size_t i = 0; i < n_bytes / sizeof *words && helper.n_places < PLACES; i++)
        if (dp_load_relaxed(&words[i]) == tid)
            helper.places[helper.n_places++] = &words[i];
    dp_store_release(&helper.prepared_tid, (uint32_t)tid); /* [PLACES] */
    dp_futex_wake(&helper.prepared_tid);
    return NULL;
}

/* Waits until the thread is no longer in the process, which is a moment after the kernel has cleared its id. */
static bool wait_until_gone(int32_t tid, int64_t deadline_ns)
{
    while (tid && syscall(SYS_tgkill, getpid(), tid, 0) == 0) {
        if (dp_clock_ns() >= deadline_ns)
            return false;
        sched_yield();
    }
    return true;
}

/* After the thread's end: finds the only word that had its id and is 0 now. */
static bool find_id(void)
{
    helper.id = NULL;
    for (unsigned i = 0; i < helper.n_places; i++) {
        if (dp_load_relaxed(helper.places[i]))
            continue;
        if (helper.id)
            return false;
        helper.id = helper.places[i];
    }
    return helper.id != NULL;
}

/* Creates the thread, waits for its end, and finds its id. */
static bool prepare_thread(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    size_t n_bytes = dp_agent_spawn_bytes(STACK_BYTES);
    void *stack = dp_mem_map(n_bytes);
    if (!stack || pthread_attr_init(&attr)) {
        dp_mem_unmap(stack, n_bytes);
        return false;
    }
    dp_store_relaxed(&helper.prepared_tid, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_made = !pthread_attr_setstack(&attr, stack, n_bytes) &&
                   !pthread_create(&thread, &attr, run_once, (char *)stack + n_bytes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (!is_made) {
        dp_mem_unmap(stack, n_bytes);
        return false;
    }
    int64_t deadline_ns = dp_clock_ns() + GONE_NS;
    uint32_t tid;
    while (!(tid = dp_load_acquire(&helper.prepared_tid)) && dp_clock_ns() < deadline_ns) /* [PLACES] */
        dp_futex_wait(&helper.prepared_tid, 0, deadline_ns);
    return tid && wait_until_gone((int32_t)tid, deadline_ns) && find_id();
}

void dp_agent_helper_init(void)
{
    dp_agent_spawn_init();
}

void dp_agent_helper_prepare(void)
{
    uint32_t none = NONE;
    if (!dp_cas_relaxed(&helper.state, &none, PREPARING))
        return;
    int saved = errno;
    if (prepare_thread())
        dp_store_release(&helper.state, READY); /* [READY] */
    errno = saved;
}

/* ---- a helper --------------------------------------------------------------------------------------------------- */

static void run_fn(void)
{
    dp_thread_mark_own();
    dp_agent_alone_thread_begins();
    dp_store_relaxed(&helper.tid, (int32_t)syscall(SYS_gettid));
    dp_log_own_table(); /* so that files opened here change no descriptor number of the program */
    helper.fn();
    dp_agent_alone_thread_ends();
    dp_store_release(&helper.busy, 0); /* [BUSY] */
    dp_futex_wake(&helper.busy);
}

static int run_prepared(void *unused)
{
    (void)unused;
    run_fn();
    return 0;
}

static void *run_new(void *unused)
{
    run_fn();
    return unused;
}

/* Starts the prepared thread again. All signals are blocked in it, as in all threads of the profiler. */
static int clone_prepared(void)
{
    sigset_t all, before;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int tid = clone(run_prepared, helper.stack, flags, NULL, helper.id, helper.pointer, helper.id);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return tid < 0 ? -errno : 0;
}

bool dp_agent_helper_run(void (*fn)(void))
{
    uint32_t idle = 0;
    if (!dp_cas_acquire(&helper.busy, &idle, 1)) /* [BUSY] */
        return true;
    int saved = errno, err = -EAGAIN;
    helper.fn = fn;
    if (!__libc_single_threaded && dp_load_acquire(&helper.state) == READY) /* [READY] */
        err = dp_load_relaxed(helper.id) ? -EAGAIN : clone_prepared();
    else if (dp_process_threads() == 1)
        err = dp_agent_spawn(NULL, STACK_BYTES, run_new, NULL);
    if (err)
        dp_store_release(&helper.busy, 0); /* [BUSY] */
    errno = saved;
    return err == 0;
}

bool dp_agent_helper_wait(int64_t deadline_ns)
{
    while (dp_load_acquire(&helper.busy)) { /* [BUSY] */
        if (dp_clock_ns() >= deadline_ns)
            return false;
        dp_futex_wait(&helper.busy, 1, deadline_ns);
    }
    return wait_until_gone(dp_load_relaxed(&helper.tid), deadline_ns);
}

/* Copies the lines Uid and Gid of a file `status`. Returns their length; 0: they could not be read. */
static size_t read_ids(const char *path, char ids[STATUS_BYTES])
{
    char text[STATUS_BYTES];
    dp_io_read_text(path, text, sizeof text);
    const char *begin = strstr(text, "\nUid:"), *end = begin ? strstr(begin, "\nFDSize:") : NULL;
    size_t n_ids = end ? (size_t)(end - begin) : 0;
    memcpy(ids, begin ? begin : "", n_ids);
    return n_ids;
}

bool dp_agent_helper_has_rights(void)
{
    char own[STATUS_BYTES], of_main[STATUS_BYTES], path[64];
    dp_text_format(path, sizeof path, "/proc/self/task/%d/status", (int)syscall(SYS_gettid));
    size_t n = read_ids(path, own);
    return read_ids("/proc/self/status", of_main) == n && memcmp(own, of_main, n) == 0;
}

DP_IN_CHILD void dp_agent_helper_fork_child(void)
{
    dp_store_relaxed(&helper.state, NONE);
    dp_store_relaxed(&helper.busy, 0);
    dp_store_relaxed(&helper.tid, 0);
}
