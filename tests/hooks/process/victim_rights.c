/* SPDX-License-Identifier: MIT */
/*
 * victim_rights HOW [PATH] - waits until the process has a second thread, gives up the rights that HOW names, and ends
 * with status 5 if then all threads of the process have the same rights. 77: the kernel does not allow HOW here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RESTRICT_SELF = 446, CREATE_RULESET = 444 }; /* Landlock's system calls, which older headers do not name */
#define WRITE_FILES ((uint64_t)(1 << 1 | 1 << 8))   /* LANDLOCK_ACCESS_FS_WRITE_FILE and _MAKE_REG */

extern int capset(void *header, const void *data);

static const char *path;
static int proc; /* a descriptor of /proc: it can still be read after chroot */

static int threads(void)
{
    struct stat st;
    return fstatat(proc, "self/task", &st, 0) ? -1 : (int)st.st_nlink - 2;
}

static void make(void)
{
    void *ptr = malloc(1000);
    __asm__ volatile("" ::"r"(ptr) : "memory");
    free(ptr);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* Reads a task's rights and root directory from /proc. */
static size_t rights(char *text, size_t room, const char *task)
{
    static const char *const lines[] = {"Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Speculation_Store"};
    char name[64], line[4096];
    struct stat root = {0};
    size_t n = 0;
    snprintf(name, sizeof name, "self/task/%s/status", task);
    FILE *status = fdopen(openat(proc, name, O_RDONLY), "r");
    while (status && fgets(line, sizeof line, status))
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            if (strncmp(line, lines[i], strlen(lines[i])) == 0)
                n += (size_t)snprintf(text + n, room - n, "%s", line);
    if (status)
        fclose(status);
    snprintf(name, sizeof name, "self/task/%s/root", task);
    int err = fstatat(proc, name, &root, 0) ? errno : 0; /* its name would be / in any case, read from inside */
    return n + (size_t)snprintf(text + n, room - n, "root %lu (%s)\n", (unsigned long)root.st_ino, strerror(err));
}

/* The number of tasks whose rights differ from the first's; printed. */
static int n_different(void)
{
    char mine[8192], other[8192];
    int n = 0;
    int fd = openat(proc, "self/task", O_RDONLY | O_DIRECTORY);
    DIR *tasks = fdopendir(fd);
    snprintf(other, sizeof other, "%d", (int)getpid());
    rights(mine, sizeof mine, other);
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        if (task->d_name[0] != '.' && rights(other, sizeof other, task->d_name) && strcmp(mine, other) != 0) {
            printf("main thread:\n%sthread %s:\n%s", mine, task->d_name, other);
            n++;
        }
    closedir(tasks);
    return n;
}

/* Drops all capabilities except those that the next steps need. libc: by its function. */
static int drop_capabilities(int libc)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
    return libc ? capset(&header, data) : (int)syscall(SYS_capset, &header, data);
}

static int landlock(void)
{
    uint64_t handled = WRITE_FILES;
    int ruleset = (int)syscall(CREATE_RULESET, &handled, sizeof handled, 0);
    if (ruleset < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return (int)syscall(RESTRICT_SELF, ruleset, 0);
}

/* libc's functions, which change all threads: each of them. */
static int change_ids(void)
{
    const gid_t group = 65534;
    return initgroups("nobody", group) | setgroups(1, &group) | setegid(group) | setegid(0) | setregid(-1, 0) |
           setresgid(-1, 0, -1) | setgid(group) | seteuid(group) | seteuid(0) | setreuid(-1, 0) | setresuid(-1, 0, -1) |
           setuid(group);
}

/* From here on the kernel queues no signal of this user, so libc's signals reach no thread. */
static int refuse_signals(void)
{
    const struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_SIGPENDING, &none);
}

static void *change_ids_in_thread(void *result)
{
    *(int *)result = change_ids();
    return NULL;
}

/* In a thread that is not the main one, which then leaves: the main thread keeps its ids, as no signal reaches it. */
static int change_ids_elsewhere(void)
{
    pthread_t thread;
    int result = -1;
    if (pthread_create(&thread, NULL, change_ids_in_thread, &result) || pthread_join(thread, NULL))
        return -1;
    return result || change_ids();
}

static int give_up(const char *how)
{
    gid_t groups[] = {65534};
    if (strcmp(how, "ids-unqueued") == 0)
        return refuse_signals() || change_ids();
    if (strcmp(how, "ids-unqueued-thread") == 0)
        return refuse_signals() || change_ids_elsewhere();
    if (strcmp(how, "capset") == 0)
        return drop_capabilities(1);
    if (strcmp(how, "capset-call") == 0)
        return drop_capabilities(0);
    if (strcmp(how, "no_new_privs") == 0)
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (strcmp(how, "no_new_privs-call") == 0)
        return (int)syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (strcmp(how, "bounding") == 0)
        return prctl(PR_CAPBSET_DROP, CAP_NET_RAW, 0, 0, 0);
    if (strcmp(how, "securebits") == 0) /* SECBIT_NOROOT and other bits of a single thread */
        return prctl(PR_SET_SECUREBITS, 1, 0, 0, 0) || prctl(PR_CAPBSET_DROP, CAP_NET_RAW, 0, 0, 0);
    if (strcmp(how, "ambient") == 0)
        return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (strcmp(how, "chroot") == 0)
        return chroot(path);
    if (strcmp(how, "chroot-call") == 0)
        return (int)syscall(SYS_chroot, path);
    if (strcmp(how, "groups-call") == 0)
        return (int)syscall(SYS_setgroups, 1, groups);
    if (strcmp(how, "uid-call") == 0)
        return (int)syscall(SYS_setresgid, 65534, 65534, 65534) || (int)syscall(SYS_setresuid, 65534, 65534, 65534);
    if (strcmp(how, "ids") == 0) /* libc's functions, which change all threads */
        return setgroups(1, groups) || setgid(65534) || setuid(65534);
    if (strcmp(how, "stages") == 0) /* as servers do */
        return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || chroot(path) || setgroups(1, groups) ||
               setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) || drop_capabilities(1) ||
               prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (strcmp(how, "landlock") == 0)
        return landlock();
    return -1;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    path = argc > 2 ? argv[2] : "";
    proc = open("/proc", O_RDONLY | O_DIRECTORY);
    while (threads() != 2)
        make();
    if (give_up(how)) {
        printf("%s: %s\n", how, strerror(errno));
        return 77;
    }
    if (threads() != 2) {
        printf("%d threads\n", threads());
        return 4;
    }
    int n = n_different();
    fflush(stdout);
    if (n)
        return 4;
    char c;
    do
        make();
    while (strcmp(how, "landlock") == 0 && read(STDIN_FILENO, &c, 1) > 0);
    return 5;
}
