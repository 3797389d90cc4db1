/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - the list of all functions that are hooked, or whose real version is called: F(name, result, (parameters),
 * (arguments), version).
 *
 * For each row real.c defines the pointer to the next definition, and wrap.h, in a static program, the name that the
 * linker gives the real function. version is the symbol version to look up on x86-64, NULL for the default: a plain
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
#define DP_SYMBOLS_MALLOC(F)                                                \
    F(malloc, void *, (size_t n), (n), NULL)                                \
    F(calloc, void *, (size_t count, size_t size), (count, size), NULL)     \
    F(realloc, void *, (void *old, size_t n), (old, n), NULL)               \
    F(memalign, void *, (size_t alignment, size_t n), (alignment, n), NULL) \
    F(free, void, (void *ptr), (ptr), NULL)

#define DP_SYMBOLS_ALIGNED(F)                                                                   \
    F(posix_memalign, int, (void **out, size_t alignment, size_t n), (out, alignment, n), NULL) \
    F(aligned_alloc, void *, (size_t alignment, size_t n), (alignment, n), NULL)                \
    F(valloc, void *, (size_t n), (n), NULL)                                                    \
    F(pvalloc, void *, (size_t n), (n), NULL)

/* Hooks of these functions call only the real functions above. */
#define DP_SYMBOLS_DERIVED(F)                                                                 \
    F(reallocarray, void *, (void *old, size_t count, size_t size), (old, count, size), NULL) \
    F(cfree, void, (void *ptr), (ptr), NULL)                                                  \
    F(free_sized, void, (void *ptr, size_t n), (ptr, n), NULL)                                \
    F(free_aligned_sized, void, (void *ptr, size_t alignment, size_t n), (ptr, alignment, n), NULL)

/* operator new and delete by their mangled names: the leaf frame is then the caller of new, and no libstdc++ is needed.
 */
#define DP_SYMBOLS_NEW_PLAIN(F)                                                 \
    F(_Znwm, void *, (size_t n), (n), NULL)                                     \
    F(_Znam, void *, (size_t n), (n), NULL)                                     \
    F(_ZnwmRKSt9nothrow_t, void *, (size_t n, const void *tag), (n, tag), NULL) \
    F(_ZnamRKSt9nothrow_t, void *, (size_t n, const void *tag), (n, tag), NULL)
#define DP_SYMBOLS_NEW_ALIGNED(F)                                                                                     \
    F(_ZnwmSt11align_val_t, void *, (size_t n, size_t alignment), (n, alignment), NULL)                               \
    F(_ZnamSt11align_val_t, void *, (size_t n, size_t alignment), (n, alignment), NULL)                               \
    F(_ZnwmSt11align_val_tRKSt9nothrow_t, void *, (size_t n, size_t alignment, const void *tag), (n, alignment, tag), \
      NULL)                                                                                                           \
    F(_ZnamSt11align_val_tRKSt9nothrow_t, void *, (size_t n, size_t alignment, const void *tag), (n, alignment, tag), \
      NULL)
#define DP_SYMBOLS_NEW(F) DP_SYMBOLS_NEW_PLAIN(F) DP_SYMBOLS_NEW_ALIGNED(F)

#define DP_SYMBOLS_DELETE_PLAIN(F)                                                \
    F(_ZdlPv, void, (void *ptr), (ptr), NULL)                                     \
    F(_ZdaPv, void, (void *ptr), (ptr), NULL)                                     \
    F(_ZdlPvm, void, (void *ptr, size_t n), (ptr, n), NULL)                       \
    F(_ZdaPvm, void, (void *ptr, size_t n), (ptr, n), NULL)                       \
    F(_ZdlPvRKSt9nothrow_t, void, (void *ptr, const void *tag), (ptr, tag), NULL) \
    F(_ZdaPvRKSt9nothrow_t, void, (void *ptr, const void *tag), (ptr, tag), NULL)
#define DP_SYMBOLS_DELETE_ALIGNED(F)                                                                    \
    F(_ZdlPvSt11align_val_t, void, (void *ptr, size_t alignment), (ptr, alignment), NULL)               \
    F(_ZdaPvSt11align_val_t, void, (void *ptr, size_t alignment), (ptr, alignment), NULL)               \
    F(_ZdlPvmSt11align_val_t, void, (void *ptr, size_t n, size_t alignment), (ptr, n, alignment), NULL) \
    F(_ZdaPvmSt11align_val_t, void, (void *ptr, size_t n, size_t alignment), (ptr, n, alignment), NULL) \
    F(_ZdlPvSt11align_val_tRKSt9nothrow_t, void, (void *ptr, size_t alignment, const void *tag),        \
      (ptr, alignment, tag), NULL)                                                                      \
    F(_ZdaPvSt11align_val_tRKSt9nothrow_t, void, (void *ptr, size_t alignment, const void *tag),        \
      (ptr, alignment, tag), NULL)
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
#define DP_SYMBOLS_PROCESS(F)                                                                      \
    F(exit, void, (int status), (status), NULL)                                                    \
    F(_exit, void, (int status), (status), NULL)                                                   \
    F(_Exit, void, (int status), (status), NULL)                                                   \
    F(__cxa_atexit, int, (void (*run)(void *), void *arg, void *object), (run, arg, object), NULL) \
    F(on_exit, int, (void (*run)(int, void *), void *arg), (run, arg), NULL)                       \
    F(pthread_exit, void, (void *result), (result), NULL)                                          \
    F(thrd_exit, void, (int result), (result), NULL)                                               \
    F(daemon, int, (int nochdir, int noclose), (nochdir, noclose), NULL)                           \
    F(dlclose, int, (void *handle), (handle), NULL)                                                \
    F(unshare, int, (int flags), (flags), NULL)                                                    \
    F(setns, int, (int fd, int type), (fd, type), NULL)                                            \
    F(chroot, int, (const char *path), (path), NULL)                                               \
    F(capset, int, (void *header, const void *data), (header, data), NULL)

/* Functions that create threads. */
#define DP_SYMBOLS_THREADS(F)                                                                                 \
    F(pthread_create, int, (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg), \
      (thread, attr, run, arg), NULL)                                                                         \
    F(thrd_create, int, (thrd_t * thread, thrd_start_t run, void *arg), (thread, run, arg), NULL)

/* Functions that libc declares with `...`; here they have fixed parameters. */
#define DP_SYMBOLS_WORDS(F)                                                                       \
    F(prctl, int, (int option, long a, long b, long c, long d), (option, a, b, c, d), NULL)       \
    F(syscall, long, (long number, long a, long b, long c, long d, DP_SYSCALL_LAST(long)),        \
      (number, a, b, c, d, DP_SYSCALL_LAST()), NULL)                                              \
    F(clone, int, (int (*run)(void *), void *stack, int flags, void *arg, DP_CLONE_LIST(void *)), \
      (run, stack, flags, arg, DP_CLONE_LIST()), NULL)

/* Functions that abandon a stack. */
#define DP_SYMBOLS_JUMP(F)                                                            \
    F(longjmp, void, (struct __jmp_buf_tag env[1], int value), (env, value), NULL)    \
    F(_longjmp, void, (struct __jmp_buf_tag env[1], int value), (env, value), NULL)   \
    F(siglongjmp, void, (struct __jmp_buf_tag env[1], int value), (env, value), NULL) \
    F(__longjmp_chk, void, (struct __jmp_buf_tag env[1], int value), (env, value), NULL)

/* The arguments of execl that are in registers; the others stay on the stack. */
#if defined(__x86_64__)
#define DP_EXEC_LIST(type) type a, type b, type c, type d, type e
#else
#define DP_EXEC_LIST(type) type a, type b, type c, type d, type e, type f, type g
#endif

/* Functions that execute another program, and functions that set or read signal actions. */
#define DP_SYMBOLS_EXEC(F)                                                                                \
    F(execve, int, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp), NULL)  \
    F(execv, int, (const char *path, char *const argv[]), (path, argv), NULL)                             \
    F(execvp, int, (const char *file, char *const argv[]), (file, argv), NULL)                            \
    F(execvpe, int, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp), NULL) \
    F(fexecve, int, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp), NULL)             \
    F(execl, int, (const char *path, DP_EXEC_LIST(long)), (path, DP_EXEC_LIST()), NULL)                   \
    F(execle, int, (const char *path, DP_EXEC_LIST(long)), (path, DP_EXEC_LIST()), NULL)                  \
    F(execlp, int, (const char *file, DP_EXEC_LIST(long)), (file, DP_EXEC_LIST()), NULL)

#define DP_SYMBOLS_SIGNAL(F)                                                              \
    F(signal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), NULL)        \
    F(bsd_signal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), NULL)    \
    F(ssignal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), NULL)       \
    F(sysv_signal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), NULL)   \
    F(__sysv_signal, sighandler_t, (int sig, sighandler_t handler), (sig, handler), NULL) \
    F(sigset, sighandler_t, (int sig, sighandler_t handler), (sig, handler), NULL)
#define DP_SYMBOLS_SIGACTION(F)                                                                             \
    F(sigaction, int, (int sig, const struct sigaction *act, struct sigaction *old), (sig, act, old), NULL) \
    F(sigaltstack, int, (const stack_t *stack, stack_t *old), (stack, old), NULL)

/* Functions in which threads wait, and functions that unlock. */
#define DP_SYMBOLS_LOCKS(F)                                                                                            \
    F(pthread_mutex_lock, int, (pthread_mutex_t * m), (m), NULL)                                                       \
    F(pthread_mutex_timedlock, int, (pthread_mutex_t * m, const struct timespec *t), (m, t), NULL)                     \
    F(pthread_mutex_clocklock, int, (pthread_mutex_t * m, clockid_t clock, const struct timespec *t), (m, clock, t),   \
      NULL)                                                                                                            \
    F(pthread_mutex_unlock, int, (pthread_mutex_t * m), (m), NULL)                                                     \
    F(pthread_mutex_destroy, int, (pthread_mutex_t * m), (m), NULL)                                                    \
    F(mtx_lock, int, (mtx_t * m), (m), NULL)                                                                           \
    F(mtx_timedlock, int, (mtx_t * m, const struct timespec *t), (m, t), NULL)                                         \
    F(mtx_unlock, int, (mtx_t * m), (m), NULL)                                                                         \
    F(mtx_destroy, void, (mtx_t * m), (m), NULL)                                                                       \
    F(pthread_rwlock_rdlock, int, (pthread_rwlock_t * l), (l), NULL)                                                   \
    F(pthread_rwlock_wrlock, int, (pthread_rwlock_t * l), (l), NULL)                                                   \
    F(pthread_rwlock_timedrdlock, int, (pthread_rwlock_t * l, const struct timespec *t), (l, t), NULL)                 \
    F(pthread_rwlock_timedwrlock, int, (pthread_rwlock_t * l, const struct timespec *t), (l, t), NULL)                 \
    F(pthread_rwlock_clockrdlock, int, (pthread_rwlock_t * l, clockid_t clock, const struct timespec *t),              \
      (l, clock, t), NULL)                                                                                             \
    F(pthread_rwlock_clockwrlock, int, (pthread_rwlock_t * l, clockid_t clock, const struct timespec *t),              \
      (l, clock, t), NULL)                                                                                             \
    F(pthread_rwlock_unlock, int, (pthread_rwlock_t * l), (l), NULL)                                                   \
    F(pthread_rwlock_destroy, int, (pthread_rwlock_t * l), (l), NULL)                                                  \
    F(pthread_cond_wait, int, (pthread_cond_t * c, pthread_mutex_t * m), (c, m), "GLIBC_2.3.2")                        \
    F(pthread_cond_timedwait, int, (pthread_cond_t * c, pthread_mutex_t * m, const struct timespec *t), (c, m, t),     \
      "GLIBC_2.3.2")                                                                                                   \
    F(pthread_cond_clockwait, int,                                                                                     \
      (pthread_cond_t * c, pthread_mutex_t * m, clockid_t clock, const struct timespec *t), (c, m, clock, t), NULL)    \
    F(pthread_cond_signal, int, (pthread_cond_t * c), (c), "GLIBC_2.3.2")                                              \
    F(cnd_wait, int, (cnd_t * c, mtx_t * m), (c, m), NULL)                                                             \
    F(cnd_timedwait, int, (cnd_t * c, mtx_t * m, const struct timespec *t), (c, m, t), NULL)                           \
    F(sem_wait, int, (sem_t * s), (s), NULL)                                                                           \
    F(sem_timedwait, int, (sem_t * s, const struct timespec *t), (s, t), NULL)                                         \
    F(sem_clockwait, int, (sem_t * s, clockid_t clock, const struct timespec *t), (s, clock, t), NULL)                 \
    F(pthread_spin_lock, int, (pthread_spinlock_t * l), (l), NULL)                                                     \
    F(pthread_barrier_wait, int, (pthread_barrier_t * b), (b), NULL)                                                   \
    F(pthread_join, int, (pthread_t thread, void **value), (thread, value), NULL)                                      \
    F(pthread_timedjoin_np, int, (pthread_t thread, void **value, const struct timespec *t), (thread, value, t), NULL) \
    F(pthread_clockjoin_np, int, (pthread_t thread, void **value, clockid_t clock, const struct timespec *t),          \
      (thread, value, clock, t), NULL)                                                                                 \
    F(thrd_join, int, (thrd_t thread, int *value), (thread, value), NULL)

/* Functions that try to lock and never wait; called, never hooked. */
#define DP_SYMBOLS_TRIES(F)                                             \
    F(pthread_mutex_trylock, int, (pthread_mutex_t * m), (m), NULL)     \
    F(mtx_trylock, int, (mtx_t * m), (m), NULL)                         \
    F(pthread_rwlock_tryrdlock, int, (pthread_rwlock_t * l), (l), NULL) \
    F(pthread_rwlock_trywrlock, int, (pthread_rwlock_t * l), (l), NULL) \
    F(sem_trywait, int, (sem_t * s), (s), NULL)                         \
    F(pthread_spin_trylock, int, (pthread_spinlock_t * l), (l), NULL)   \
    F(pthread_tryjoin_np, int, (pthread_t thread, void **value), (thread, value), NULL)

/* Functions of libc that are resolved after the malloc group. */
#define DP_SYMBOLS_TAKEN(F) \
    DP_SYMBOLS_ALIGNED(F)   \
    DP_SYMBOLS_PROCESS(F)   \
    DP_SYMBOLS_THREADS(F)   \
    DP_SYMBOLS_WORDS(F)     \
    DP_SYMBOLS_JUMP(F) DP_SYMBOLS_EXEC(F) DP_SYMBOLS_SIGNAL(F) DP_SYMBOLS_SIGACTION(F) DP_SYMBOLS_LOCKS(F)
/* The function that calls main; not hooked in a static program. */
#define DP_SYMBOLS_START(F)                                                                              \
    F(__libc_start_main, int,                                                                            \
      (int (*run)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void), \
       void (*loader_fini)(void), void *stack_end),                                                      \
      (run, argc, argv, init, fini, loader_fini, stack_end), NULL)

/* Functions that map memory; not hooked in a static program, where malloc calls them as the program does. */
#define DP_SYMBOLS_MAP(F)                                                                                           \
    F(mmap, void *, (void *wanted, size_t n, int protection, int flags, int fd, off_t offset),                      \
      (wanted, n, protection, flags, fd, offset), NULL)                                                             \
    F(mmap64, void *, (void *wanted, size_t n, int protection, int flags, int fd, off_t offset),                    \
      (wanted, n, protection, flags, fd, offset), NULL)                                                             \
    F(munmap, int, (void *start, size_t n), (start, n), NULL)                                                       \
    F(mremap, void *, (void *old, size_t n_old, size_t n, int flags, void *wanted), (old, n_old, n, flags, wanted), \
      NULL)                                                                                                         \
    F(mprotect, int, (void *start, size_t n, int protection), (start, n, protection), NULL)                         \
    F(brk, int, (void *end), (end), NULL)                                                                           \
    F(sbrk, void *, (intptr_t n), (n), NULL)

#define DP_SYMBOLS_LIBC(F) DP_SYMBOLS_TAKEN(F) DP_SYMBOLS_MAP(F) DP_SYMBOLS_TRIES(F) DP_SYMBOLS_START(F)
#define DP_SYMBOLS_CXX(F)  DP_SYMBOLS_NEW(F) DP_SYMBOLS_DELETE(F)
