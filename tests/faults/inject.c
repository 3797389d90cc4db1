/* SPDX-License-Identifier: MIT */
/*
 * inject.c - makes one system call of deltaprof fail. To be preloaded behind it, into a program that does not use
 * syscall(2), mmap and the like through the libraries named below.
 *
 * Each function here is called instead of libc's. It checks its return address: calls from deltaprof's libraries, its
 * modules and the libraries that only they load are counted by place (library, offset of the caller), in a file that
 * all processes of a run map; all other calls are passed on uncounted. INJECT_FILE names that file, and INJECT says
 * which call fails:
 *
 *     place LIBRARY OFFSET once|always     the first call from there, or each one
 *     from N                               the Nth call of all, and each one after it
 *     nth N                                the Nth call of all, alone
 *
 * The errno is one that a full, limited or sandboxed system returns. Calls go to the kernel directly: a function of
 * libc may be what is called here, before libc is ready.
 *
 * Where none fails, descriptors are looked at as well: `n_shared` counts, by place, those that another thread than the
 * first opens in the first one's table, where the host's next descriptor would have another number meanwhile.
 */
#undef _FILE_OFFSET_BITS /* both names of a function are defined here */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define EXPORT   __attribute__((visibility("default"), noinline))
#define N_PLACES 1024

/* As test_faults.py reads it. */
struct place {
    _Atomic uint64_t key; /* 0: not taken */
    _Atomic uint64_t n_calls, n_failed, n_shared;
    uint64_t offset;
    char function[32], library[64];
};
struct book {
    _Atomic uint64_t n_calls, n_failed;
    struct place places[N_PLACES];
};

static struct book *book;
static atomic_int begun; /* 1: by a thread that is not ready; 2: ready */
static enum { NONE, PLACE_ONCE, PLACE_ALWAYS, NTH, FROM } mode;
static uint64_t wanted;
static char wanted_library[64];
static __thread struct place *here_now __attribute__((tls_model("initial-exec"))); /* where the present call is */

static long kernel(long n, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static long plain(long n, long a, long b, long c, long d, long e, long f)
{
    long result = kernel(n, a, b, c, d, e, f);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

static void begin(void)
{
    int none = 0;
    if (atomic_load(&begun) == 2 || !atomic_compare_exchange_strong(&begun, &none, 1))
        return;
    const char *file = getenv("INJECT_FILE"), *what = getenv("INJECT");
    long fd = file ? kernel(SYS_openat, AT_FDCWD, (long)file, O_RDWR | O_CLOEXEC, 0, 0, 0) : -1;
    if (fd < 0)
        return; /* the victim executed another program: never ready */
    long at = kernel(SYS_mmap, 0, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    kernel(SYS_close, fd, 0, 0, 0, 0, 0);
    if (at < 0 && at > -4096)
        return;
    char how[16] = "";
    unsigned long n = 0;
    if (what && sscanf(what, "place %63s %lx %15s", wanted_library, &n, how) == 3)
        mode = !strcmp(how, "once") ? PLACE_ONCE : PLACE_ALWAYS;
    else if (what && sscanf(what, "from %lu", &n) == 1)
        mode = FROM;
    else if (what && sscanf(what, "nth %lu", &n) == 1)
        mode = NTH;
    wanted = n;
    book = (struct book *)at;
    atomic_store(&begun, 2);
}

/* The name of a library of deltaprof's that holds the address; NULL: it is another's. */
static const char *library_of(const void *address, uintptr_t *offset)
{
    static const char *const ours[] = {"libdeltaprof", "libmicrohttpd", "libunwind", "libelf", "libdw"};
    struct dl_find_object found;
    if (_dl_find_object((void *)address, &found) || !found.dlfo_link_map || !found.dlfo_link_map->l_name)
        return NULL;
    const char *path = found.dlfo_link_map->l_name, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    *offset = (uintptr_t)address - found.dlfo_link_map->l_addr;
    if (strstr(path, "/modules/"))
        return name;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strncmp(name, ours[i], strlen(ours[i])))
            return name;
    return NULL;
}

static struct place *place_of(const char *function, const char *library, uintptr_t offset)
{
    uint64_t key = 14695981039346656037u ^ offset;
    for (const char *p = library; *p; p++)
        key = (key ^ (unsigned char)*p) * 1099511628211u;
    key |= 1;
    for (size_t i = key % N_PLACES, n = 0; n < N_PLACES; n++, i = (i + 1) % N_PLACES) {
        struct place *place = &book->places[i];
        uint64_t seen = 0;
        if (atomic_compare_exchange_strong(&place->key, &seen, key)) {
            place->offset = offset;
            strncpy(place->function, function, sizeof place->function - 1);
            strncpy(place->library, library, sizeof place->library - 1);
            return place;
        }
        if (seen == key)
            return place;
    }
    return NULL;
}

/* Whether this call shall fail; then errno is set. */
static bool fails(const char *function, const void *caller, int err)
{
    int saved = errno;
    begin();
    uintptr_t offset;
    const char *library = atomic_load(&begun) == 2 ? library_of(caller, &offset) : NULL;
    struct place *place = library ? place_of(function, library, offset) : NULL;
    here_now = mode == NONE ? place : NULL;
    errno = saved;
    if (!place)
        return false;
    uint64_t nth = atomic_fetch_add(&book->n_calls, 1) + 1, nth_here = atomic_fetch_add(&place->n_calls, 1) + 1;
    bool here = mode != NONE && offset == wanted && !strcmp(library, wanted_library);
    bool fail = mode == PLACE_ONCE     ? here && nth_here == 1
                : mode == PLACE_ALWAYS ? here
                : mode == NTH          ? nth == wanted
                : mode == FROM         ? nth >= wanted
                                       : false;
    if (!fail)
        return false;
    atomic_fetch_add(&book->n_failed, 1);
    atomic_fetch_add(&place->n_failed, 1);
    errno = err;
    return true;
}

#define FAILS(err) fails(__func__, __builtin_return_address(0), err)

/* What a thread's descriptor is, "" if it has none. */
static void read_link(long process, long thread, int fd, char text[256])
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/fd/%d", process, thread, fd);
    long n = kernel(SYS_readlink, (long)path, (long)text, 255, 0, 0, 0);
    text[n > 0 ? n : 0] = 0;
}

/* Notes a new descriptor that is in the first thread's table, and was opened by another thread. */
static int opened(int fd)
{
    char ours[256], its[256];
    long process = kernel(SYS_getpid, 0, 0, 0, 0, 0, 0), thread = kernel(SYS_gettid, 0, 0, 0, 0, 0, 0);
    if (fd < 0 || !here_now || process == thread)
        return fd;
    int saved = errno;
    read_link(process, thread, fd, ours);
    read_link(process, process, fd, its);
    if (*its && !strcmp(ours, its))
        atomic_fetch_add(&here_now->n_shared, 1);
    errno = saved;
    return fd;
}

/* ---- system calls by their numbers ------------------------------------------------------------------------------ */

/* TYPE name(one argument a word); fails with ERR. */
#define CALL1(type, name, number, err, A)                                     \
    EXPORT type name(A a)                                                     \
    {                                                                         \
        return FAILS(err) ? -1 : (type)plain(number, (long)a, 0, 0, 0, 0, 0); \
    }
#define CALL2(type, name, number, err, A, B)                                        \
    EXPORT type name(A a, B b)                                                      \
    {                                                                               \
        return FAILS(err) ? -1 : (type)plain(number, (long)a, (long)b, 0, 0, 0, 0); \
    }
#define CALL3(type, name, number, err, A, B, C)                                           \
    EXPORT type name(A a, B b, C c)                                                       \
    {                                                                                     \
        return FAILS(err) ? -1 : (type)plain(number, (long)a, (long)b, (long)c, 0, 0, 0); \
    }
#define CALL4(type, name, number, err, A, B, C, D)                                              \
    EXPORT type name(A a, B b, C c, D d)                                                        \
    {                                                                                           \
        return FAILS(err) ? -1 : (type)plain(number, (long)a, (long)b, (long)c, (long)d, 0, 0); \
    }
#define CALL5(type, name, number, err, A, B, C, D, E)                                                 \
    EXPORT type name(A a, B b, C c, D d, E e)                                                         \
    {                                                                                                 \
        return FAILS(err) ? -1 : (type)plain(number, (long)a, (long)b, (long)c, (long)d, (long)e, 0); \
    }

EXPORT void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return FAILS(ENOMEM) ? MAP_FAILED : (void *)plain(SYS_mmap, (long)at, (long)n, prot, flags, fd, offset);
}

EXPORT void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return FAILS(ENOMEM) ? MAP_FAILED : (void *)plain(SYS_mmap, (long)at, (long)n, prot, flags, fd, offset);
}

EXPORT void *mremap(void *at, size_t old, size_t n, int flags, ...)
{
    return FAILS(ENOMEM) ? MAP_FAILED : (void *)plain(SYS_mremap, (long)at, (long)old, (long)n, flags, 0, 0);
}

static int open_at(int at, const char *path, int flags, va_list args)
{
    int mode_bits = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
    return opened((int)plain(SYS_openat, at, (long)path, flags, mode_bits, 0, 0));
}

#define OPEN(name, at, ...)                                           \
    EXPORT int name(__VA_ARGS__, int flags, ...)                      \
    {                                                                 \
        va_list args;                                                 \
        va_start(args, flags);                                        \
        int fd = FAILS(EMFILE) ? -1 : open_at(at, path, flags, args); \
        va_end(args);                                                 \
        return fd;                                                    \
    }
OPEN(open, AT_FDCWD, const char *path)
OPEN(open64, AT_FDCWD, const char *path)
OPEN(openat, at, int at, const char *path)
OPEN(openat64, at, int at, const char *path)

#define FCNTL(name)                                                                     \
    EXPORT int name(int fd, int command, ...)                                           \
    {                                                                                   \
        va_list args;                                                                   \
        va_start(args, command);                                                        \
        long value = va_arg(args, long);                                                \
        va_end(args);                                                                   \
        return FAILS(EMFILE) ? -1 : (int)plain(SYS_fcntl, fd, command, value, 0, 0, 0); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

CALL3(int, madvise, SYS_madvise, ENOMEM, void *, size_t, int)
CALL3(int, mprotect, SYS_mprotect, ENOMEM, void *, size_t, int)
CALL3(ssize_t, read, SYS_read, EIO, int, void *, size_t)
CALL3(ssize_t, write, SYS_write, ENOSPC, int, const void *, size_t)
CALL4(ssize_t, pread64, SYS_pread64, EIO, int, void *, size_t, off_t)
CALL3(off_t, lseek64, SYS_lseek, ESPIPE, int, off_t, int)
CALL2(int, access, SYS_access, EACCES, const char *, int)
CALL2(int, stat64, SYS_stat, EACCES, const char *, struct stat64 *)
CALL2(int, lstat64, SYS_lstat, EACCES, const char *, struct stat64 *)
CALL2(int, fstat64, SYS_fstat, EACCES, int, struct stat64 *)
CALL3(ssize_t, readlink, SYS_readlink, EACCES, const char *, char *, size_t)
CALL2(int, mkdir, SYS_mkdir, ENOSPC, const char *, mode_t)
CALL2(int, chmod, SYS_chmod, EPERM, const char *, mode_t)
CALL2(int, fchmod, SYS_fchmod, EPERM, int, mode_t)
CALL1(int, unlink, SYS_unlink, EPERM, const char *)
CALL3(int, unlinkat, SYS_unlinkat, EPERM, int, const char *, int)
CALL5(int, linkat, SYS_linkat, EPERM, int, const char *, int, const char *, int)
CALL5(int, renameat2, SYS_renameat2, ENOSPC, int, const char *, int, const char *, unsigned)
EXPORT int socket(int family, int type, int protocol)
{
    return FAILS(EPERM) ? -1 : opened((int)plain(SYS_socket, family, type, protocol, 0, 0, 0));
}
CALL3(int, bind, SYS_bind, EACCES, int, const struct sockaddr *, socklen_t)
CALL3(int, connect, SYS_connect, ECONNREFUSED, int, const struct sockaddr *, socklen_t)
CALL2(int, listen, SYS_listen, ENOBUFS, int, int)
CALL4(int, accept4, SYS_accept4, EMFILE, int, struct sockaddr *, socklen_t *, int)
CALL5(int, setsockopt, SYS_setsockopt, ENOPROTOOPT, int, int, int, const void *, socklen_t)
CALL5(int, getsockopt, SYS_getsockopt, ENOPROTOOPT, int, int, int, void *, socklen_t *)
CALL3(int, getsockname, SYS_getsockname, ENOBUFS, int, struct sockaddr *, socklen_t *)
CALL3(ssize_t, sendmsg, SYS_sendmsg, ENOBUFS, int, const struct msghdr *, int)
CALL2(int, shutdown, SYS_shutdown, ENOTCONN, int, int)
CALL1(int, epoll_create1, SYS_epoll_create1, EMFILE, int)
CALL4(int, epoll_ctl, SYS_epoll_ctl, ENOSPC, int, int, int, void *)
CALL2(int, eventfd, SYS_eventfd2, EMFILE, unsigned, int)
EXPORT int pipe2(int fds[2], int flags)
{
    return FAILS(EMFILE) ? -1 : (int)plain(SYS_pipe2, (long)fds, flags, 0, 0, 0, 0);
}
CALL3(ssize_t, getrandom, SYS_getrandom, ENOSYS, void *, size_t, unsigned)

EXPORT ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    return FAILS(ECONNRESET) ? -1 : plain(SYS_sendto, fd, (long)bytes, (long)n, flags, 0, 0);
}

EXPORT ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    return FAILS(ECONNRESET) ? -1 : plain(SYS_recvfrom, fd, (long)bytes, (long)n, flags, 0, 0);
}

EXPORT int signalfd(int fd, const sigset_t *mask, int flags)
{
    return FAILS(EMFILE) ? -1 : opened((int)plain(SYS_signalfd4, fd, (long)mask, 8, flags, 0, 0));
}

/* The victim's own calls come through deltaprof, too; its stack lies in the program, and deltaprof's is mapped. */
EXPORT int sigaltstack(const stack_t *stack, stack_t *old)
{
    struct dl_find_object found;
    bool is_ours = stack && _dl_find_object(stack->ss_sp, &found);
    return is_ours && FAILS(ENOMEM) ? -1 : (int)plain(SYS_sigaltstack, (long)stack, (long)old, 0, 0, 0, 0);
}

EXPORT char *getcwd(char *buffer, size_t n)
{
    return FAILS(ENOENT) ? NULL : plain(SYS_getcwd, (long)buffer, (long)n, 0, 0, 0, 0) < 0 ? NULL : buffer;
}

/* The caller may be deltaprof's interposer: the victim itself uses no syscall(). Some calls never fail if their
 * arguments are good: the thread's id, an action for a signal, a signal to itself. A futex that fails at once is one
 * that was woken. A close releases the descriptor whatever it returns. */
EXPORT long syscall(long n, ...)
{
    va_list args;
    va_start(args, n);
    long a = va_arg(args, long), b = va_arg(args, long), c = va_arg(args, long), d = va_arg(args, long),
         e = va_arg(args, long), f = va_arg(args, long);
    va_end(args);
    bool never = n == SYS_futex || n == SYS_gettid || n == SYS_tgkill || n == SYS_rt_sigaction ||
                 n == SYS_rt_sigtimedwait || n == SYS_close;
    bool opens = n == SYS_openat || n == SYS_dup || n == 434 /* pidfd_open */ || n == 438 /* pidfd_getfd */;
    if (!never && FAILS(EPERM))
        return -1;
    return opens ? opened((int)plain(n, a, b, c, d, e, f)) : plain(n, a, b, c, d, e, f);
}

/* ---- functions that are more than a system call ----------------------------------------------------------------- */

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        real =
            (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    /* A thread of the victim's may come through deltaprof, too: what it begins with tells. */
    uintptr_t offset;
    const char *library = library_of((const void *)(uintptr_t)start, &offset);
    bool is_ours = library && strncmp(library, "libdeltaprof_preload", 20);
    if (is_ours && fails("pthread_create", (const void *)(uintptr_t)start, EAGAIN))
        return EAGAIN;
    return real(thread, attr, start, arg);
}

EXPORT int pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
    static int (*real)(pthread_key_t *, void (*)(void *));
    if (FAILS(EAGAIN))
        return EAGAIN;
    if (!real)
        real = (int (*)(pthread_key_t *, void (*)(void *)))dlsym(RTLD_NEXT, "pthread_key_create");
    return real(key, destroy);
}

EXPORT FILE *fopen64(const char *path, const char *how)
{
    static FILE *(*real)(const char *, const char *);
    if (FAILS(EMFILE))
        return NULL;
    if (!real)
        real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen64");
    return real(path, how);
}
