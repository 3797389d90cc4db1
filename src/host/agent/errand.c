/* SPDX-License-Identifier: MIT */
/*
 * host/agent/errand.c - runs one function at a time in a thread that is there for nothing else.
 *
 * A hook of malloc in a process with several threads must not call pthread_create: it takes locks of the loader, and
 * the thread in the hook may hold a lock that a thread inside the loader waits for (agent.c). It must not wait for
 * another thread that calls it, either. So a thread is prepared where the program creates its first one. That thread is
 * an ordinary one, joinable, on a stack of the profiler's own. It ends at once and is never joined: libc keeps its
 * thread-local variables, and does not count it as alive. The kernel has cleared its thread id (CLONE_CHILD_CLEARTID),
 * which tells where libc keeps it.
 *
 *     NONE --prepare--> PREPARING --> READY --run--> BUSY --its function returns, the kernel clears the id--> READY
 *
 * run makes it live again by clone(2), with the same thread-local variables and the same place of its id: a system
 * call, without a lock, an allocation or a wait. All that libc does by thread works in it: locks that name their owner,
 * errno, malloc. It may enter the loader and create threads, because it holds no lock of the program, and no thread
 * waits for it.
 *
 * libc does not ask a thread that has ended to change its user id (setuid). Its creator's ids are those of the program
 * at the clone; if the program changes them while an errand is under way, a thread that the errand created could keep
 * the old ones. dp_agent_errand_has_rights tells, and the caller ends that thread.
 *
 * In a process with one thread nothing is prepared. There libc saves its locks, and a thread that it does not know of
 * would break it; but there pthread_create is safe at the edge of a hook.
 */
#include "host/agent/errand.h"

#include "host/agent/alone.h"
#include "host/agent/spawn.h"
#include "host/thread/thread.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NONE, PREPARING, READY };
enum { STACK_BYTES = 256 << 10, SCANNED_BYTES = 2048, PLACES = 8, GONE_NS = 1000000000, STATUS_BYTES = 2048 };

static struct {
    _Atomic uint32_t state;
    _Atomic uint32_t busy; /* 1: an errand is under way */
    _Atomic int32_t tid;   /* of the thread of the last errand */
    void (*fn)(void);      /* written under `busy` */
    /* Of the prepared thread. Written before READY is published [READY]. */
    void *pointer, *stack;           /* its thread pointer, and where its stack begins */
    _Atomic int32_t *id;             /* where libc keeps its id */
    _Atomic int32_t *places[PLACES]; /* before that is known: the words that had its value */
    unsigned n_places;
    _Atomic uint32_t prepared_tid;
} errand;

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

static void *note_place(void *unused)
{
    dp_thread_mark_own();
    int32_t tid = (int32_t)syscall(SYS_gettid);
    errand.pointer = thread_pointer();
    errand.stack = (void *)((uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)63);
    _Atomic int32_t *words = (_Atomic int32_t *)(uintptr_t)pthread_self();
    errand.n_places = 0;
    for (size_t i = 0; i < SCANNED_BYTES / sizeof *words && errand.n_places < PLACES; i++)
        if (dp_load_relaxed(&words[i]) == tid)
            errand.places[errand.n_places++] = &words[i];
    dp_store_release(&errand.prepared_tid, (uint32_t)tid); /* [PLACES] */
    dp_futex_wake(&errand.prepared_tid);
    return unused;
}

/* Whether the kernel has removed the thread. It clears the id before that. */
static bool wait_until_gone(int32_t tid, int64_t deadline_ns)
{
    while (tid && syscall(SYS_tgkill, getpid(), tid, 0) == 0) {
        if (dp_clock_ns() >= deadline_ns)
            return false;
        sched_yield();
    }
    return true;
}

/* Of the words that had the thread's id, the one that the kernel has cleared. */
static bool find_id(void)
{
    errand.id = NULL;
    for (unsigned i = 0; i < errand.n_places; i++) {
        if (dp_load_relaxed(errand.places[i]))
            continue;
        if (errand.id)
            return false;
        errand.id = errand.places[i];
    }
    return errand.id != NULL;
}

/* Creates the thread and waits for its end. */
static bool prepare(void)
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
    dp_store_relaxed(&errand.prepared_tid, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_made = !pthread_attr_setstack(&attr, stack, n_bytes) && !pthread_create(&thread, &attr, note_place, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (!is_made) {
        dp_mem_unmap(stack, n_bytes);
        return false;
    }
    int64_t deadline_ns = dp_clock_ns() + GONE_NS;
    uint32_t tid;
    while (!(tid = dp_load_acquire(&errand.prepared_tid)) && dp_clock_ns() < deadline_ns) /* [PLACES] */
        dp_futex_wait(&errand.prepared_tid, 0, deadline_ns);
    return tid && wait_until_gone((int32_t)tid, deadline_ns) && find_id();
}

void dp_agent_errand_init(void)
{
    dp_agent_spawn_init();
}

void dp_agent_errand_prepare(void)
{
    uint32_t none = NONE;
    if (!dp_cas_relaxed(&errand.state, &none, PREPARING))
        return;
    int saved = errno;
    if (prepare())
        dp_store_release(&errand.state, READY); /* [READY] */
    errno = saved;                              /* else it stays PREPARING: it is not tried again */
}

/* ---- an errand -------------------------------------------------------------------------------------------------- */

static void run(void)
{
    dp_thread_mark_own();
    dp_agent_alone_thread_begins();
    dp_store_relaxed(&errand.tid, (int32_t)syscall(SYS_gettid));
    if (dp_log_own_table() == 0)
        dp_process_own_descriptors(); /* the program's next descriptor has the number that it expects */
    errand.fn();
    dp_agent_alone_thread_ends();
    dp_store_release(&errand.busy, 0); /* [BUSY] */
    dp_futex_wake(&errand.busy);
}

static int run_prepared(void *unused)
{
    (void)unused;
    run();
    return 0;
}

static void *run_new(void *unused)
{
    run();
    return unused;
}

/* Signals stay blocked in the thread, as in all threads of the profiler. */
static int clone_prepared(void)
{
    sigset_t all, before;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int tid = clone(run_prepared, errand.stack, flags, NULL, errand.id, errand.pointer, errand.id);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return tid < 0 ? -errno : 0;
}

bool dp_agent_errand_run(void (*fn)(void))
{
    uint32_t idle = 0;
    if (!dp_cas_acquire(&errand.busy, &idle, 1)) /* [BUSY]: the last errand has read fn */
        return true;
    int saved = errno, err = -EAGAIN;
    errand.fn = fn;
    if (!__libc_single_threaded && dp_load_acquire(&errand.state) == READY) /* [READY] */
        err = dp_load_relaxed(errand.id) ? -EAGAIN : clone_prepared();
    else if (dp_process_threads() == 1)
        err = dp_agent_spawn(NULL, STACK_BYTES, run_new, NULL);
    if (err)
        dp_store_release(&errand.busy, 0); /* [BUSY] */
    errno = saved;
    return err == 0;
}

bool dp_agent_errand_wait(int64_t deadline_ns)
{
    while (dp_load_acquire(&errand.busy)) { /* [BUSY] */
        if (dp_clock_ns() >= deadline_ns)
            return false;
        dp_futex_wait(&errand.busy, 1, deadline_ns);
    }
    return wait_until_gone(dp_load_relaxed(&errand.tid), deadline_ns);
}

/* The lines Uid and Gid of a thread of this process. */
static size_t read_ids(const char *path, char ids[STATUS_BYTES])
{
    char text[STATUS_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *begin = strstr(text, "\nUid:"), *end = begin ? strstr(begin, "\nFDSize:") : NULL;
    size_t n_ids = end ? (size_t)(end - begin) : 0;
    memcpy(ids, begin ? begin : "", n_ids);
    return n_ids;
}

bool dp_agent_errand_has_rights(void)
{
    char own[STATUS_BYTES], of_main[STATUS_BYTES], path[64];
    dp_text_format(path, sizeof path, "/proc/self/task/%d/status", (int)syscall(SYS_gettid));
    size_t n = read_ids(path, own);
    return read_ids("/proc/self/status", of_main) == n && memcmp(own, of_main, n) == 0;
}

DP_IN_CHILD void dp_agent_errand_fork_child(void)
{
    dp_store_relaxed(&errand.state, NONE);
    dp_store_relaxed(&errand.busy, 0);
    dp_store_relaxed(&errand.tid, 0);
}
