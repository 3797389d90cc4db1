/* SPDX-License-Identifier: MIT */
/*
 * System calls that fail as the kernel's may, for the endpoint to meet: DELTAPROF_TEST_BREAK names the one.
 *
 *     listen   the first call fails with EADDRINUSE, as when another process that bound the port too listens first
 *     epoll    nothing can be taken out of an epoll set, which libmicrohttpd takes for the end of the world
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static int breaks(const char *what)
{
    const char *broken = getenv("DELTAPROF_TEST_BREAK");
    return broken && !strcmp(broken, what);
}

__attribute__((visibility("default"))) int listen(int fd, int backlog)
{
    static atomic_int calls;
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "listen");
    if (breaks("listen") && atomic_fetch_add(&calls, 1) == 0) {
        errno = EADDRINUSE;
        return -1;
    }
    return real(fd, backlog);
}

__attribute__((visibility("default"))) int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    int (*real)(int, int, int, struct epoll_event *) =
        (int (*)(int, int, int, struct epoll_event *))dlsym(RTLD_NEXT, "epoll_ctl");
    if (breaks("epoll") && op == EPOLL_CTL_DEL) {
        errno = EBADF;
        return -1;
    }
    return real(set, op, fd, event);
}
