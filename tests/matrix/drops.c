/* SPDX-License-Identifier: MIT */
/*
 * drops - gives up its rights in stages, as daemons do: chroot, groups, user, capabilities, no_new_privs, a filter.
 * After each stage it allocates, and prints how many threads still have rights that the first thread gave up. It reads
 * the rights from /proc.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int proc_fd;

/* Writes the rights of a thread: its root directory, and the lines of its status that show them. */
static void rights(const char *thread, char *to, size_t n_to)
{
    static const char *const lines[] = {"Uid:", "Gid:", "Groups:", "CapEff:", "CapPrm:", "NoNewPrivs:", "Seccomp:"};
    char path[64], text[8192], root[256] = "";
    snprintf(path, sizeof path, "self/task/%s/status", thread);
    int fd = openat(proc_fd, path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof path, "self/task/%s/root", thread);
    ssize_t n_root = readlinkat(proc_fd, path, root, sizeof root - 1);
    root[n_root > 0 ? n_root : 0] = 0;
    size_t at = (size_t)snprintf(to, n_to, "%s\n", root);
    for (size_t i = 0; i < sizeof lines / sizeof *lines && at < n_to; i++) {
        const char *line = strstr(text, lines[i]);
        at += (size_t)snprintf(to + at, n_to - at, "%.*s\n", line ? (int)strcspn(line, "\n") : 0, line ? line : "");
    }
}

/* Returns how many threads have other rights than the first thread. */
static int n_stronger(void)
{
    char mine[1024], other[1024], self[16];
    snprintf(self, sizeof self, "%d", (int)getpid());
    rights(self, mine, sizeof mine);
    int n = 0, fd = openat(proc_fd, "self/task", O_RDONLY | O_DIRECTORY);
    DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.')
            continue;
        rights(task->d_name, other, sizeof other);
        n += strchr(other, ':') && strcmp(mine, other) != 0; /* a thread that has just ended has no lines */
    }
    if (tasks)
        closedir(tasks);
    return n;
}

static void stage(const char *name, long err)
{
    for (int i = 0; i < 2000; i++) {
        void *volatile p = malloc((size_t)(i % 700 + 1));
        free(p);
    }
    printf("%s: %s, stronger threads %d\n", name, err ? strerror(errno) : "done", n_stronger());
}

int main(void)
{
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {1, allow};
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}}, some[2] = {{0}};
    char jail[] = "/tmp/drops.XXXXXX";
    if ((proc_fd = open("/proc", O_RDONLY | O_DIRECTORY)) < 0 || !mkdtemp(jail))
        return 3;
    stage("start", 0);
    usleep(200000);
    stage("later", 0);
    syscall(SYS_capget, &header, some);
    some[0].effective &= ~(1u << CAP_SYS_PTRACE | 1u << CAP_NET_RAW);
    some[0].permitted &= ~(1u << CAP_NET_RAW);
    stage("fewer capabilities", syscall(SYS_capset, &header, some));
    stage("chroot", chroot(jail));
    stage("chdir", chdir("/"));
    stage("groups", setgroups(0, NULL));
    stage("group", setresgid(65534, 65534, 65534));
    stage("user", setresuid(65534, 65534, 65534));
    stage("capabilities", syscall(SYS_capset, &header, none));
    stage("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    stage("filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0));
    usleep(200000);
    stage("end", 0);
    return 0;
}
