/* SPDX-License-Identifier: MIT */
/*
 * host/http/wrapper.c - recognizes a process that only waits for the program that it started.
 *
 * Such a wrapper and its program get the same configuration, so both would serve the same port, which should belong to
 * the program. Three facts in /proc identify a wrapper: the system call in which the main thread waits (for a child or
 * a signal, never for input), the number of threads, and a child that has executed a program. A forked child that
 * executed nothing has its stack at the same address as its parent; exec places a new stack.
 *
 * An ancestor has an endpoint if one of its threads has the name of the endpoint's thread.
 */
#include "host/http/wrapper.h"

#include "base/io.h"
#include "base/process.h"
#include "base/text.h"
#include "host/agent/agent.h"

#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENDPOINT_THREADS = 2, GENERATIONS = 16, PATH_TEXT = 320, STAT_TEXT = 512, CHILDREN_TEXT = 1024 };
enum { PARENT = 4, START_OF_STACK = 28 }; /* fields of /proc/PID/stat (proc(5)) */

static bool waits_for_child_or_signal(void)
{
    char path[PATH_TEXT], text[STAT_TEXT];
    dp_text_format(path, sizeof path, "/proc/self/task/%d/syscall", (int)getpid());
    dp_io_read_text(path, text, sizeof text);
    long number = strtol(text, NULL, 10); /* 0 or -1: it is running, or /proc gives no answer */
    return number == SYS_wait4 || number == SYS_waitid || number == SYS_rt_sigsuspend || number == SYS_rt_sigtimedwait;
}

bool dp_http_wrapper_only_waits(void)
{
    char path[PATH_TEXT], children[CHILDREN_TEXT];
    if (dp_process_threads() != 1 + ENDPOINT_THREADS + dp_agent_is_running() || !waits_for_child_or_signal())
        return false;
    dp_text_format(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    dp_io_read_text(path, children, sizeof children);
    uint64_t mine = dp_process_stat(getpid(), getpid(), START_OF_STACK, NULL);
    char *at = children;
    for (long pid; (pid = strtol(at, &at, 10)) > 0;) {
        char state = 0; /* the child is there */
        if (dp_process_stat((pid_t)pid, (pid_t)pid, START_OF_STACK, &state) != mine && state)
            return true;
    }
    return false;
}

static bool has_endpoint(pid_t pid)
{
    char path[PATH_TEXT], name[32];
    bool found = false;
    dp_text_format(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && !found && (task = readdir(tasks));) {
        dp_text_format(path, sizeof path, "/proc/%d/task/%s/comm", (int)pid, task->d_name);
        dp_io_read_text(path, name, sizeof name);
        found = strcmp(name, "deltaprof-http\n") == 0;
    }
    if (tasks)
        closedir(tasks);
    return found;
}

pid_t dp_http_wrapper_server_above(char name[16])
{
    char path[PATH_TEXT];
    pid_t pid = getppid();
    for (int i = 0; i < GENERATIONS && pid > 0; i++) {
        if (has_endpoint(pid)) {
            dp_text_format(path, sizeof path, "/proc/%d/comm", (int)pid);
            dp_io_read_text(path, name, 16);
            name[strcspn(name, "\n")] = '\0';
            return pid;
        }
        pid = (pid_t)dp_process_stat(pid, pid, PARENT, NULL);
    }
    return 0;
}
