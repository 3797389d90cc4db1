/* SPDX-License-Identifier: MIT */
/* victim_user - becomes another user, by each function of libc, where the kernel queues no signal of this user. */
#define _GNU_SOURCE
#include <grp.h>
#include <sys/resource.h>
#include <unistd.h>

int main(void)
{
    const struct rlimit none = {0, 0};
    const gid_t group = 65534;
    if (setrlimit(RLIMIT_SIGPENDING, &none))
        return 1;
    int failed = initgroups("nobody", group) | setgroups(1, &group) | setegid(0) | setregid(-1, 0) |
                 setresgid(-1, 0, -1) | setgid(group) | seteuid(0) | setreuid(-1, 0) | setresuid(-1, 0, -1) |
                 setuid(65534);
    return failed || getuid() != 65534 || getgid() != 65534 ? 2 : 0;
}
