// SPDX-License-Identifier: MIT
// killed.c - preloaded into a command: kills it at call number KILLED_AT of the functions by which it asks its reader
// and names and deletes files, so that each moment between two of them is met.
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static void count_call(void)
{
    static int n;
    const char *at = getenv("KILLED_AT");
    if (at && ++n == atoi(at))
        kill(getpid(), SIGKILL);
}

EXPORT ssize_t send(int fd, const void *bytes, size_t n_bytes, int flags)
{
    ssize_t (*next)(int, const void *, size_t, int);
    *(void **)&next = dlsym(RTLD_NEXT, "send");
    count_call();
    return next(fd, bytes, n_bytes, flags);
}

EXPORT int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    int (*next)(int, const char *, int, const char *, unsigned);
    *(void **)&next = dlsym(RTLD_NEXT, "renameat2");
    count_call();
    return next(from_dir, from, to_dir, to, flags);
}

EXPORT int unlinkat(int dir, const char *name, int flags)
{
    int (*next)(int, const char *, int);
    *(void **)&next = dlsym(RTLD_NEXT, "unlinkat");
    count_call();
    return next(dir, name, flags);
}
