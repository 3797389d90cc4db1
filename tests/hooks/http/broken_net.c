/* SPDX-License-Identifier: MIT */
/*
 * Makes one system call fail as the kernel may, to test the endpoint. DELTAPROF_TEST_BREAK names the call:
 *
 *     listen   the first call fails with EADDRINUSE, as when another process that bound the port too listens first
 *     epoll    removing a descriptor from an epoll set fails, after which libmicrohttpd gives up
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
