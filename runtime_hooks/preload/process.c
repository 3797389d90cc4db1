/* SPDX-License-Identifier: MIT */
/*
 * process.c - hooks that tell the library about events of the process: end, closed libraries, namespaces, rights,
 * seccomp. Its hook of syscall also serves futex.c.
 *
 * exit runs handlers in the reverse order of their registration, C++ destructors included. Its last handler is the one
 * of the loader, which runs the destructors of objects. The library must know of the end before all of them, so it
 * registers a handler of its own after each one of the program, and replaces the loader's by one that calls it. A
 * handler of the library serves quick_exit, too (init.c); `_exit` and exit_group run none. If two threads call exit,
 * one runs the handlers and the other may end the process meanwhile, so exit has a hook too. A main that returns calls
 * no hook; if another thread is in the loader's handler, there must be a handler below it that waits. syscall and prctl
 * are declared here with the largest number of arguments, because the true number is not known. Arguments are passed on
 * unchanged, by a jump, also because a system call may return twice.
 */
#include "futex.h"
#include "hook.h"
#include "libc.h"

#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* System calls that older headers do not name. */
enum { CLONE3 = 435, LANDLOCK_RESTRICT_SELF = 446, LSM_SET_SELF_ATTR = 460 };
#ifndef PR_SET_SPECULATION_CTRL
#define PR_SET_SPECULATION_CTRL 53
#endif

/* not declared noreturn, so that the hook ends with a jump */
DP_HOOK void dp_exit(int status) __asm__(DP_HOOK_NAME("exit"));
DP_HOOK void _exit(int status) __attribute__((noreturn));
DP_HOOK void _Exit(int status) __attribute__((noreturn));
DP_HOOK void pthread_exit(void *result) __attribute__((noreturn));
DP_HOOK void thrd_exit(int result) __attribute__((noreturn));
DP_HOOK int __cxa_atexit(void (*run)(void *), void *arg, void *object);
DP_HOOK int on_exit(void (*run)(int, void *), void *arg);
#ifndef DP_WRAP
DP_HOOK int __libc_start_main(int (*run)(int, char **, char **), int argc, char **argv, void (*init)(void),
                              void (*fini_of_program)(void), void (*loader_fini)(void), void *stack_end);
#endif
DP_HOOK int daemon(int nochdir, int noclose);
DP_HOOK int dlclose(void *handle);
DP_HOOK int capset(void *header, const void *data); /* in libc, but in no header of libc */
DP_HOOK long dp_syscall(long number, long a, long b, long c, long d,
                        DP_SYSCALL_LAST(long)) __asm__(DP_HOOK_NAME("syscall"));
DP_HOOK int dp_prctl(int option, long a, long b, long c, long d) __asm__(DP_HOOK_NAME("prctl"));

void dp_exit(int status)
{
    deltaprof_exit_begins();
    DP_REAL(exit)(status);
}

static void before_handlers(void *unused)
{
    (void)unused;
    deltaprof_before_handlers();
}

/* Registers the library's handler after one of the program. A program that opens and closes plugins without end gets at
 * most HANDLERS_MOST of them. */
static int registered(int result)
{
    enum { HANDLERS_MOST = 1024 };
    static unsigned n_handlers;
    if (result || deltaprof_is_guarded() || !deltaprof_exit_is_watched() ||
        __atomic_fetch_add(&n_handlers, 1, __ATOMIC_RELAXED) >= HANDLERS_MOST)
        return result;
    int64_t kept = deltaprof_guard_enter();
    DP_REAL(__cxa_atexit)(before_handlers, NULL, NULL);
    deltaprof_guard_exit(kept);
    return result;
}

int __cxa_atexit(void (*run)(void *), void *arg, void *object)
{
    return registered(DP_REAL(__cxa_atexit)(run, arg, object));
}

#ifndef __GLIBC__ /* a function of libc, which registers the handler by a call that no hook sees */
DP_HOOK int atexit(void (*run)(void));
int atexit(void (*run)(void))
{
    return registered(DP_REAL(__cxa_atexit)((void (*)(void *))run, NULL, NULL));
}
#endif

int on_exit(void (*run)(int, void *), void *arg)
{
    return registered(DP_REAL(on_exit)(run, arg));
}

#ifndef DP_WRAP
static void (*loader_fini_of_program)(void);

static void fini(void)
{
    deltaprof_before_handlers();
    loader_fini_of_program();
}

static void after_handlers(void *unused)
{
    (void)unused;
    deltaprof_exit_begins();
}

/* Jumps to the real function, so that no frame of the library is below main. */
int __libc_start_main(int (*run)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini_of_program)(void), void (*loader_fini)(void), void *stack_end)
{
    loader_fini_of_program = loader_fini;
    if (loader_fini && deltaprof_exit_is_watched()) {
        int64_t kept = deltaprof_guard_enter();
        /* The loader's handler is registered after it, and runs first. */
        DP_REAL(__cxa_atexit)(after_handlers, NULL, NULL);
        deltaprof_guard_exit(kept);
        loader_fini = fini;
    }
    return DP_REAL(__libc_start_main)(run, argc, argv, init, fini_of_program, loader_fini, stack_end);
}

/*
 * musl gives no handler of the loader: it runs the destructors of objects after all handlers, and opens no library from
 * then on, so the last profiles could not be named. Its constructors run after the call of __libc_start_main.
 */
void dp_watch_exit(void)
{
#ifndef __GLIBC__
    DP_REAL(__cxa_atexit)(after_handlers, NULL, NULL); /* the last one */
    DP_REAL(__cxa_atexit)(before_handlers, NULL, NULL);
#endif
}
#endif

void _exit(int status)
{
    deltaprof_before_exit();
    DP_REAL(_exit)(status);
    __builtin_unreachable();
}

void _Exit(int status)
{
    _exit(status);
}

void pthread_exit(void *result)
{
    deltaprof_before_thread_exit();
    DP_REAL(pthread_exit)(result);
    __builtin_unreachable();
}

void thrd_exit(int result)
{
    deltaprof_before_thread_exit();
    DP_REAL(thrd_exit)(result);
    __builtin_unreachable();
}

static void main_ends(void *unused)
{
    (void)unused;
    deltaprof_before_thread_exit();
}

/*
 * A main thread that is cancelled calls no hook, but the destructors of its keys. The values of the first 32 keys stand
 * in the thread's own descriptor; setting a later one would allocate. In a forked child the thread that forked is the
 * main thread.
 */
static pthread_key_t main_key;

static void watch_calling_thread(void)
{
    dp_libc_forget_tid();
    pthread_setspecific(main_key, &main_key);
}

void dp_watch_main(void)
{
    enum { KEYS_IN_THREAD = 32 };
    if (pthread_key_create(&main_key, main_ends))
        return;
    if (main_key >= KEYS_IN_THREAD) {
        pthread_key_delete(main_key);
        return;
    }
    watch_calling_thread();
    pthread_atfork(NULL, NULL, watch_calling_thread);
}

/* The parent ends inside libc, by an _exit that no hook sees; so its profiles are delivered before. */
int daemon(int nochdir, int noclose)
{
    deltaprof_emit();
    return DP_REAL(daemon)(nochdir, noclose);
}

int dlclose(void *handle)
{
    deltaprof_unload_begin();
    int result = DP_REAL(dlclose)(handle);
    deltaprof_unload_end();
    return result;
}

/*
 * These belong to each thread separately: namespaces, the root directory, capabilities. The library's threads end
 * before the call, because some of these calls need a process with one thread; the calling thread then creates them
 * again, so that they inherit its present state. The same for user and group ids, whose change may not reach a thread
 * (symbols.h): no thread of the library has an id that the program gave up.
 */
#define PAUSING(name, by_any, parameters, arguments) \
    DP_HOOK int name parameters                      \
    {                                                \
        deltaprof_restrict_begin(by_any);            \
        int result = DP_REAL(name) arguments;        \
        deltaprof_restrict_end();                    \
        return result;                               \
    }

PAUSING(unshare, true, (int flags), (flags))
PAUSING(setns, true, (int fd, int type), (fd, type))
PAUSING(chroot, false, (const char *path), (path))
PAUSING(capset, false, (void *header, const void *data), (header, data))
#define PAUSING_USER(name, type, parameters, arguments, version) PAUSING(name, true, parameters, arguments)
DP_SYMBOLS_USER(PAUSING_USER)

/* Whether the option of prctl takes rights from the calling thread alone. */
static inline bool lessens(long option, long a)
{
    return option == PR_SET_NO_NEW_PRIVS || option == PR_CAPBSET_DROP || option == PR_SET_SECUREBITS ||
           option == PR_SET_SPECULATION_CTRL || (option == PR_CAP_AMBIENT && a != PR_CAP_AMBIENT_IS_SET);
}

/*
 * Whether a system call takes rights from the calling thread alone. Includes user and group ids, which libc's functions
 * change in every thread; but not a change of the effective id alone, which programs undo later.
 */
static bool restricts(long number, long a, long b, long c)
{
    switch (number) {
    case SYS_capset:
    case SYS_chroot:
    case SYS_setgroups:
    case SYS_setuid:
    case SYS_setgid:
    case LANDLOCK_RESTRICT_SELF:
    case LSM_SET_SELF_ATTR:
        return true;
    case SYS_setreuid:
    case SYS_setregid:
        return (int)a != -1;
    case SYS_setresuid:
    case SYS_setresgid:
        return (int)a != -1 || (int)c != -1;
    case SYS_prctl:
        return lessens(a, b);
    default:
        return false;
    }
}

/*
 * Whether the call installs a filter, or traps the time stamp counter, which clock_gettime reads. With a filter of
 * NULL, programs and libseccomp only ask whether the kernel supports it.
 */
static inline bool confines(long number, long a, long b, long c)
{
    if (number == SYS_seccomp)
        return a == SECCOMP_SET_MODE_STRICT || (a == SECCOMP_SET_MODE_FILTER && c);
    if (number == SYS_prctl && a == PR_SET_TSC)
        return b == PR_TSC_SIGSEGV;
    return number == SYS_prctl && a == PR_SET_SECCOMP && (b != SECCOMP_MODE_FILTER || c);
}

static __attribute__((noinline)) int prctl_pausing(int option, long a, long b, long c, long d)
{
    deltaprof_restrict_begin(false);
    int result = DP_REAL(prctl)(option, a, b, c, d);
    deltaprof_restrict_end();
    return result;
}

/*
 * Tells the library before the filter is active: afterwards a thread of the library could be killed when it opens a
 * file.
 */
int dp_prctl(int option, long a, long b, long c, long d)
{
    if (lessens(option, a))
        return prctl_pausing(option, a, b, c, d);
    if (option == PR_SET_TSC && a == PR_TSC_SIGSEGV)
        deltaprof_before_tsc_trap();
    else if (confines(SYS_prctl, option, a, b))
        deltaprof_before_seccomp();
    return DP_REAL(prctl)(option, a, b, c, d);
}

/* These system calls have at most five arguments, which are in registers. */
static __attribute__((noinline)) long syscall_pausing(long number, long a, long b, long c, long d,
                                                      DP_SYSCALL_LAST(long))
{
    deltaprof_restrict_begin(number == SYS_unshare || number == SYS_setns);
    long result = DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
    deltaprof_restrict_end();
    return result;
}

/* clone3 has its flags in memory. */
static inline bool makes_thread(long number, long a)
{
    if (number == SYS_clone)
        return a & CLONE_THREAD;
    return number == CLONE3 && a && *(const uint64_t *)a & CLONE_THREAD;
}

static __attribute__((noinline)) long told(long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long))
{
    if (number == SYS_exit_group)
        deltaprof_before_exit();
    else if (number == SYS_exit)
        deltaprof_before_thread_exit();
    else if (number == SYS_execve || number == SYS_execveat)
        dp_before_exec(NULL);
    else if (deltaprof_poll_wanted && makes_thread(number, a))
        deltaprof_before_thread_create();
    else if (number == SYS_prctl && a == PR_SET_TSC && b == PR_TSC_SIGSEGV)
        deltaprof_before_tsc_trap();
    else if (confines(number, a, b, c))
        deltaprof_before_seccomp();
    return DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
}

static __attribute__((noinline)) long watched_call(long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long))
{
    if (number == SYS_futex || number == SYS_FUTEX_WAIT || number == SYS_FUTEX_WAKE || number == SYS_FUTEX_WAITV)
        return dp_syscall_futex(number, a, b, c, d, DP_SYSCALL_LAST());
    if (number == SYS_unshare || number == SYS_setns || restricts(number, a, b, c))
        return syscall_pausing(number, a, b, c, d, DP_SYSCALL_LAST());
    return told(number, a, b, c, d, DP_SYSCALL_LAST());
}

/* A bit for each system call that has a hook. */
#define BIT(word, number) ((number) / 64 == (word) ? UINT64_C(1) << (number) % 64 : 0)
#define WATCHED(w)                                                                                                 \
    (BIT(w, SYS_capset) | BIT(w, SYS_chroot) | BIT(w, SYS_setgroups) | BIT(w, SYS_setuid) | BIT(w, SYS_setgid) |   \
     BIT(w, LANDLOCK_RESTRICT_SELF) | BIT(w, LSM_SET_SELF_ATTR) | BIT(w, SYS_setreuid) | BIT(w, SYS_setregid) |    \
     BIT(w, SYS_setresuid) | BIT(w, SYS_setresgid) | BIT(w, SYS_prctl) | BIT(w, SYS_unshare) | BIT(w, SYS_setns) | \
     BIT(w, SYS_exit) | BIT(w, SYS_exit_group) | BIT(w, SYS_execve) | BIT(w, SYS_execveat) | BIT(w, SYS_seccomp) | \
     BIT(w, SYS_clone) | BIT(w, CLONE3) | BIT(w, SYS_futex) | BIT(w, SYS_FUTEX_WAIT) | BIT(w, SYS_FUTEX_WAKE) |    \
     BIT(w, SYS_FUTEX_WAITV))
static const uint64_t watched[8] = {WATCHED(0), WATCHED(1), WATCHED(2), WATCHED(3),
                                    WATCHED(4), WATCHED(5), WATCHED(6), WATCHED(7)};

long dp_syscall(long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long))
{
    if (__builtin_expect((unsigned long)number < 512 && watched[number / 64] >> number % 64 & 1, 0))
        return watched_call(number, a, b, c, d, DP_SYSCALL_LAST());
    return DP_REAL(syscall)(number, a, b, c, d, DP_SYSCALL_LAST());
}
