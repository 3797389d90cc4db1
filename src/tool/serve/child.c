/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/child.c - starts programs. A child asks for SIGTERM at the end of the thread that started it, which comes
 * also if this process is killed.
 */
#include "tool/serve/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EXIT_UNABLE 127

/* In the child of a process that may have threads: only system calls. */
static void become(const char *program, char **argv, int output, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* the terminal's interrupt is for the server, which ends its programs itself */
    sigprocmask(SIG_SETMASK, &none, NULL);
    int nothing = output < 0 ? -1 : open("/dev/null", O_WRONLY);
    if (getppid() == parent && (output < 0 || (dup2(output, 1) == 1 && dup2(nothing, 2) == 2)))
        execv(program, argv);
    _exit(EXIT_UNABLE);
}

pid_t dp_serve_child_start(const char *program, char **argv, int output)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(program, argv, output, parent);
    return pid;
}
