/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - the list of all functions that are hooked, or whose real version is called: F(name, result, (parameters),
 * (arguments), version).
 *
 * For each row real.c defines the pointer to the next definition, and wrap.h, in a static program, the name that the
 * linker gives the real function. version is the symbol version to look up on x86-64, "" for the default: a plain
 * lookup of pthread_cond_* would find the oldest version, which works on another structure.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <threads.h>

/* Functions that allocate and free memory of the C heap; resolved first, with the help of the arena. */
#define DP_SYMBOLS_MALLOC(F)                                          \
    F(malloc, void *, (size_t n), (n), "")                            \
    F(calloc, void *, (size_t count, size_t size), (count, size), "") \
    F(realloc, void *, (void *old, size_t n), (old, n), "")           \
    F(free, void, (void *ptr), (ptr), "")                             \
    F(memalign, void *, (size_t alignment, size_t n), (alignment, n), "")

#define DP_SYMBOLS_ALIGNED(F)                                                                 \
    F(posix_memalign, int, (void **out, size_t alignment, size_t n), (out, alignment, n), "") \
    F(aligned_alloc, void *, (size_t alignment, size_t n), (alignment, n), "")                \
    F(valloc, void *, (size_t n), (n), "")                                                    \
    F(pvalloc, void *, (size_t n), (n), "")

/* Hooks of these functions call the process's realloc and free (derived.c). */
#define DP_SYMBOLS_DERIVED(F)                                                               \
    F(reallocarray, void *, (void *old, size_t count, size_t size), (old, count, size), "") \
    F(cfree, void, (void *ptr), (ptr), "")                                                  \
    F(free_sized, void, (void *ptr, size_t n), (ptr, n), "")                                \
    F(free_aligned_sized, void, (void *ptr, size_t alignment, size_t n), (ptr, alignment, n), "")

/* operator new and delete by their mangled names: the leaf frame is then the caller of new, and no libstdc++ is needed.
 */
#define DP_SYMBOLS_NEW_PLAIN(F)                                               \
    F(_Znwm, void *, (size_t n), (n), "")                                     \
    F(_Znam, void *, (size_t n), (n), "")                                     \
    F(_ZnwmRKSt9nothrow_t, void *, (size_t n, const void *tag), (n, tag), "") \
    F(_ZnamRKSt9nothrow_t, void *, (size_t n, const void *tag), (n, tag), "")
#define DP_SYMBOLS_NEW_ALIGNED(F)                                                                                     \
    F(_ZnwmSt11align_val_t, void *, (size_t n, size_t alignment), (n, alignment), "")                                 \
    F(_ZnamSt11align_val_t, void *, (size_t n, size_t alignment), (n, alignment), "")                                 \
    F(_ZnwmSt11align_val_tRKSt9nothrow_t, void *, (size_t n, size_t alignment, const void *tag), (n, alignment, tag), \
      "")                                                                                                             \
    F(_ZnamSt11align_val_tRKSt9nothrow_t, void *, (size_t n, size_t alignment, const void *tag), (n, alignment, tag), \
      "")
#define DP_SYMBOLS_NEW(F) DP_SYMBOLS_NEW_PLAIN(F) DP_SYMBOLS_NEW_ALIGNED(F)

#define DP_SYMBOLS_DELETE_PLAIN(F)                                              \
    F(_ZdlPv, void, (void *ptr), (ptr), "")                                     \
    F(_ZdaPv, void, (void *ptr), (ptr), "")                                     \
    F(_ZdlPvm, void, (void *ptr, size_t n), (ptr, n), "")                       \
    F(_ZdaPvm, void, (void *ptr, size_t n), (ptr, n), "")                       \
    F(_ZdlPvRKSt9nothrow_t, void, (void *ptr, const void *tag), (ptr, tag), "") \
    F(_ZdaPvRKSt9nothrow_t, void, (void *ptr, const void *tag), (ptr, tag), "")
#define DP_SYMBOLS_DELETE_ALIGNED(F)                                                                  \
    F(_ZdlPvSt11align_val_t, void, (void *ptr, size_t alignment), (ptr, alignment), "")               \
    F(_ZdaPvSt11align_val_t, void, (void *ptr, size_t alignment), (ptr, alignment), "")               \
    F(_ZdlPvmSt11align_val_t, void, (void *ptr, size_t n, size_t alignment), (ptr, n, alignment), "") \
    F(_ZdaPvmSt11align_val_t, void, (void *ptr, size_t n, size_t alignment), (ptr, n, alignment), "") \
    F(_ZdlPvSt11align_val_tRKSt9nothrow_t, void, (void *ptr, size_t alignment, const void *tag),      \
      (ptr, alignment, tag), "")                                                                      \
    F(_ZdaPvSt11align_val_tRKSt9nothrow_t, void, (void *ptr, size_t alignment, const void *tag),      \
      (ptr, alignment, tag), "")
#define DP_SYMBOLS_DELETE(F) DP_SYMBOLS_DELETE_PLAIN(F) DP_SYMBOLS_DELETE_ALIGNED(F)

/*
 * syscall has up to seven arguments. On x86-64 the seventh is on the stack, and stays there, because the hook jumps to
 * the real function. If it were declared, the compiler could write to its place on the stack. In a call with fewer
 * arguments, that place is a variable of the caller.
 */
#if defined(__x86_64__)
#define DP_SYSCALL_LAST(type) type e
#define DP_CLONE_LIST(type)   type a, type b
#else
#define DP_SYSCALL_LAST(type) type e, type f
#define DP_CLONE_LIST(type)   type a, type b, type c
#endif

/* Functions that end or change the process. */
#define DP_SYMBOLS_PROCESS(F)                                                                    \
    F(exit, void, (int status), (status), "")                                                    \
    F(_exit, void, (int status), (status), "")                                                   \
    F(_Exit, void, (int status), (status), "")                                                   \
    F(__cxa_atexit, int, (void (*run)(void *), void *arg, void *object), (run, arg, object), "") \
    F(on_exit, int, (void (*run)(int, void *), void *arg), (run, arg), "")                       \
    F(pthread_exit, void, (void *result), (result), "")                                          \
    F(thrd_exit, void, (int result), (result), "")                                               \
    F(daemon, int, (int nochdir, int noclose), (nochdir, noclose), "")                           \
    F(dlclose, int, (void *handle), (handle), "")                                                \
    F(unshare, int, (int flags), (flags), "")                                                    \
    F(setns, int, (int fd, int type), (fd, type), "")                                            \
    F(chroot, int, (const char *path), (path), "")                                               \
    F(capset, int, (void *header, const void *data), (header, data), "")

/*
 * Functions that change the ids of all threads. libc signals each thread for that. A signal that the kernel does not
 * queue (RLIMIT_SIGPENDING) is repeated for ever by musl; glibc goes on, and the thread keeps its ids.
 */
#define DP_SYMBOLS_USER(F)                                                                        \
    F(setuid, int, (uid_t user), (user), "")                                                      \
    F(setgid, int, (gid_t group), (group), "")                                                    \
    F(seteuid, int, (uid_t user), (user), "")                                                     \
    F(setegid, int, (gid_t group), (group), "")                                                   \
    F(setreuid, int, (uid_t user, uid_t effective), (user, effective), "")                        \
    F(setregid, int, (gid_t group, gid_t effective), (group, effective), "")                      \
    F(setresuid, int, (uid_t user, uid_t effective, uid_t saved), (user, effective, saved), "")   \
    F(setresgid, int, (gid_t group, gid_t effective, gid_t saved), (group, effective, saved), "") \
    F(setgroups, int, (size_t n, const gid_t *groups), (n, groups), "")                           \
    DP_SYMBOLS_INITGROUPS(F)
/* Not where the linker wraps symbols: the hook would draw the databases of users into every static program, and libc's
 * initgroups calls the wrapped setgroups. */
#ifdef DP_WRAP
#define DP_SYMBOLS_INITGROUPS(F)
#else
#define DP_SYMBOLS_INITGROUPS(F) F(initgroups, int, (const char *user, gid_t group), (user, group), "")
#endif

/* Functions that create and cancel threads. */
#define DP_SYMBOLS_THREADS(F)                                                                                 \
    F(pthread_create, int, (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg), \
      (thread, attr, run, arg), "")                                                                           \
    F(thrd_create, int, (thrd_t * thread, thrd_start_t run, void *arg), (thread, run, arg), "")               \
    F(pthread_cancel, int, (pthread_t thread), (thread), "")

/* Functions that libc declares with `...`; here they have fixed parameters. */
#define DP_SYMBOLS_WORDS(F)                                                                       \
    F(prctl, int, (int option, long a, long b, long c, long d), (option, a, b, c, d), "")         \
    F(syscall, long, (long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long)),        \
      (number, a, b, c, d, DP_SYSCALL_LAST()), "")                                                \
    F(clone, int, (int (*run)(void *), void *stack, int flags, void *arg, DP_CLONE_LIST(void *)), \
      (run, stack, flags, arg, DP_CLONE_LIST()), "")

/* Functions that abandon a stack. */
#define DP_SYMBOLS_JUMP(F)                                                          \
    F(longjmp, void, (struct __jmp_buf_tag env[1], int value), (env, value), "")    \
    F(_longjmp, void, (struct __jmp_buf_tag env[1], int value), (env, value), "")   \
    F(siglongjmp, void, (struct __jmp_buf_tag env[1], int value), (env, value), "") \
    F(__longjmp_chk, void, (struct __jmp_buf_tag env[1], int value), (env, value), "")

/* The arguments of execl that are in registers; the others stay on the stack. */
#if defined(__x86_64__)
#define DP_EXEC_LIST(type) type a, type b, type c, type d, type e
#else
#define DP_EXEC_LIST(type) type a, type b, type c, type d, type e, type f, type g
#endif

/* Functions that execute another program, and functions that set or read signal actions. */
#define DP_SYMBOLS_EXEC(F)                                                                              \
    F(execve, int, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp), "")  \
    F(execv, int, (const char *path, char *const argv[]), (path, argv), "")                             \
    F(execvp, int, (const char *file, char *const argv[]), (file, argv), "")                            \
    F(execvpe, int, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp), "") \
    F(fexecve, int, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp), "")             \
    F(execl, int, (const char *path, DP_EXEC_LIST(long)), (path, DP_EXEC_LIST()), "")                   \
    F(execle, int, (const char *path, DP_EXEC_LIST(long)), (path, DP_EXEC_LIST()), "")                  \
    F(execlp, int, (const char *file, DP_EXEC_LIST(long)), (file, DP_EXEC_LIST()), "")

#define DP_SYMBOLS_SIGNAL(F)                                                            \
    F(signal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), "")        \
    F(bsd_signal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), "")    \
    F(ssignal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), "")       \
    F(sysv_signal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), "")   \
    F(__sysv_signal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), "") \
    F(sigset, sighandler_t, (int sig, sighandler_t handler), (sig, handler), "")
#define DP_SYMBOLS_SIGACTION(F)                                                                           \
    F(sigaction, int, (int sig, const struct sigaction *act, struct sigaction *old), (sig, act, old), "") \
    F(sigaltstack, int, (const stack_t *stack, stack_t *old), (stack, old), "")

/* Functions in which threads wait, and functions that unlock. */
#define DP_SYMBOLS_LOCKS(F)                                                                                          \
    F(pthread_mutex_lock, int, (pthread_mutex_t * m), (m), "")                                                       \
    F(pthread_mutex_timedlock, int, (pthread_mutex_t * m, const struct timespec *t), (m, t), "")                     \
    F(pthread_mutex_clocklock, int, (pthread_mutex_t * m, clockid_t clock, const struct timespec *t), (m, clock, t), \
      "")                                                                                                            \
    F(pthread_mutex_unlock, int, (pthread_mutex_t * m), (m), "")                                                     \
    F(pthread_mutex_destroy, int, (pthread_mutex_t * m), (m), "")                                                    \
    F(mtx_lock, int, (mtx_t * m), (m), "")                                                                           \
    F(mtx_timedlock, int, (mtx_t * m, const struct timespec *t), (m, t), "")                                         \
    F(mtx_unlock, int, (mtx_t * m), (m), "")                                                                         \
    F(mtx_destroy, void, (mtx_t * m), (m), "")                                                                       \
    F(pthread_rwlock_rdlock, int, (pthread_rwlock_t * l), (l), "")                                                   \
    F(pthread_rwlock_wrlock, int, (pthread_rwlock_t * l), (l), "")                                                   \
    F(pthread_rwlock_timedrdlock, int, (pthread_rwlock_t * l, const struct timespec *t), (l, t), "")                 \
    F(pthread_rwlock_timedwrlock, int, (pthread_rwlock_t * l, const struct timespec *t), (l, t), "")                 \
    F(pthread_rwlock_clockrdlock, int, (pthread_rwlock_t * l, clockid_t clock, const struct timespec *t),            \
      (l, clock, t), "")                                                                                             \
    F(pthread_rwlock_clockwrlock, int, (pthread_rwlock_t * l, clockid_t clock, const struct timespec *t),            \
      (l, clock, t), "")                                                                                             \
    F(pthread_rwlock_unlock, int, (pthread_rwlock_t * l), (l), "")                                                   \
    F(pthread_rwlock_destroy, int, (pthread_rwlock_t * l), (l), "")                                                  \
    F(pthread_cond_wait, int, (pthread_cond_t * c, pthread_mutex_t * m), (c, m), "GLIBC_2.3.2")                      \
    F(pthread_cond_timedwait, int, (pthread_cond_t * c, pthread_mutex_t * m, const struct timespec *t), (c, m, t),   \
      "GLIBC_2.3.2")                                                                                                 \
    F(pthread_cond_clockwait, int,                                                                                   \
      (pthread_cond_t * c, pthread_mutex_t * m, clockid_t clock, const struct timespec *t), (c, m, clock, t), "")    \
    F(pthread_cond_signal, int, (pthread_cond_t * c), (c), "GLIBC_2.3.2")                                            \
    F(cnd_wait, int, (cnd_t * c, mtx_t * m), (c, m), "")                                                             \
    F(cnd_timedwait, int, (cnd_t * c, mtx_t * m, const struct timespec *t), (c, m, t), "")                           \
    F(sem_wait, int, (sem_t * s), (s), "")                                                                           \
    F(sem_timedwait, int, (sem_t * s, const struct timespec *t), (s, t), "")                                         \
    F(sem_clockwait, int, (sem_t * s, clockid_t clock, const struct timespec *t), (s, clock, t), "")                 \
    F(pthread_spin_lock, int, (pthread_spinlock_t * l), (l), "")                                                     \
    F(pthread_barrier_wait, int, (pthread_barrier_t * b), (b), "")                                                   \
    F(pthread_join, int, (pthread_t thread, void **value), (thread, value), "")                                      \
    F(pthread_timedjoin_np, int, (pthread_t thread, void **value, const struct timespec *t), (thread, value, t), "") \
    F(pthread_clockjoin_np, int, (pthread_t thread, void **value, clockid_t clock, const struct timespec *t),        \
      (thread, value, clock, t), "")                                                                                 \
    F(thrd_join, int, (thrd_t thread, int *value), (thread, value), "")

/* Functions that try to lock and never wait; called, never hooked. */
#define DP_SYMBOLS_TRIES(F)                                           \
    F(pthread_mutex_trylock, int, (pthread_mutex_t * m), (m), "")     \
    F(mtx_trylock, int, (mtx_t * m), (m), "")                         \
    F(pthread_rwlock_tryrdlock, int, (pthread_rwlock_t * l), (l), "") \
    F(pthread_rwlock_trywrlock, int, (pthread_rwlock_t * l), (l), "") \
    F(sem_trywait, int, (sem_t * s), (s), "")                         \
    F(pthread_spin_trylock, int, (pthread_spinlock_t * l), (l), "")   \
    F(pthread_tryjoin_np, int, (pthread_t thread, void **value), (thread, value), "")

/* Functions of libc that are resolved after the malloc group. */
#define DP_SYMBOLS_TAKEN(F) \
    DP_SYMBOLS_ALIGNED(F)   \
    DP_SYMBOLS_PROCESS(F)   \
    DP_SYMBOLS_USER(F)      \
    DP_SYMBOLS_THREADS(F)   \
    DP_SYMBOLS_WORDS(F)     \
    DP_SYMBOLS_JUMP(F) DP_SYMBOLS_EXEC(F) DP_SYMBOLS_SIGNAL(F) DP_SYMBOLS_SIGACTION(F) DP_SYMBOLS_LOCKS(F)
/* The function that calls main; not hooked in a static program. */
#define DP_SYMBOLS_START(F)                                                                              \
    F(__libc_start_main, int,                                                                            \
      (int (*run)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void), \
       void (*loader_fini)(void), void *stack_end),                                                      \
      (run, argc, argv, init, fini, loader_fini, stack_end), "")

/* Functions that map memory; not hooked in a static program, where malloc calls them as the program does. */
#define DP_SYMBOLS_MAP(F)                                                                                           \
    F(mmap, void *, (void *wanted, size_t n, int protection, int flags, int fd, off_t offset),                      \
      (wanted, n, protection, flags, fd, offset), "")                                                               \
    F(mmap64, void *, (void *wanted, size_t n, int protection, int flags, int fd, off_t offset),                    \
      (wanted, n, protection, flags, fd, offset), "")                                                               \
    F(munmap, int, (void *start, size_t n), (start, n), "")                                                         \
    F(mremap, void *, (void *old, size_t n_old, size_t n, int flags, void *wanted), (old, n_old, n, flags, wanted), \
      "")                                                                                                           \
    F(mprotect, int, (void *start, size_t n, int protection), (start, n, protection), "")                           \
    F(brk, int, (void *end), (end), "")                                                                             \
    F(sbrk, void *, (intptr_t n), (n), "")

#define DP_SYMBOLS_LIBC(F) DP_SYMBOLS_TAKEN(F) DP_SYMBOLS_MAP(F) DP_SYMBOLS_TRIES(F) DP_SYMBOLS_START(F)
#define DP_SYMBOLS_CXX(F)  DP_SYMBOLS_NEW(F) DP_SYMBOLS_DELETE(F)
