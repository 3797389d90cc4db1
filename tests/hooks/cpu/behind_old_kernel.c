/* SPDX-License-Identifier: MIT */
/* Behind the preload object: a kernel whose version does not tell how its CPU timers behave, and whose waits they end.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/utsname.h>

__attribute__((visibility("default"))) int uname(struct utsname *name)
{
    memset(name, 0, sizeof *name);
    strcpy(name->sysname, "Linux");
    strcpy(name->machine, "x86_64");
    strcpy(name->release, "4.19.0");
    return 0;
}

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                                                 const sigset_t *mask)
{
    (void)fds, (void)n, (void)timeout, (void)mask;
    errno = EINTR;
    return -1;
}
