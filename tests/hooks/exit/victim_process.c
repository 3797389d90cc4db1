/* SPDX-License-Identifier: MIT */
/*
 * victim_process HOW [ARG] - makes one block of 1234 bytes in make_last, holds it, and ends, or lives on, in the way
 * that HOW names.
 */
#include "make_last.h"

#include "../../support/victim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../support/compat.h"

/*
 * Forks children that end at once; with `after`, by a signal that would deliver the parent's profiles; the parent then
 * runs `after`.
 */
static int vforks(void *(*after)(void))
{
    for (volatile int i = 0; i < 20; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            if (after)
                kill(getpid(), SIGTERM);
            _exit(3);
        }
        int status;
        waitpid(pid, &status, 0);
        if (after ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM
                  : !WIFEXITED(status) || WEXITSTATUS(status) != 3)
            return 4;
    }
    if (after)
        after();
    return 5;
}

static void *leave_late(void *arg)
{
    pause_ms(100);
    make_last();
    return NULL;
}

static void *exits(void *arg)
{
    exit(5);
    return arg;
}

static void *forever(void *arg)
{
    for (;;)
        free(make_again());
    return NULL;
}

static void *nothing(void *arg)
{
    return arg;
}

static sigjmp_buf out;

static void jump_out(int signal)
{
    siglongjmp(out, 1);
}

extern int raise_in_malloc __attribute__((weak)); /* defined by behind.c, an allocator behind the profiler */

/* A handler jumps out of the real malloc, through the hook; later events must be seen as before. */
static int jump_out_of_hooks(void)
{
    struct sigaction action = {.sa_handler = jump_out};
    sigaction(SIGUSR1, &action, NULL);
    if (&raise_in_malloc == NULL)
        return 4;
    for (volatile int i = 0; i < 100; i++) {
        if (sigsetjmp(out, 1) == 0) {
            raise_in_malloc = SIGUSR1;
            free(make_again());
            return 4;
        }
        make_last();
    }
    return 5;
}

extern char *early_kept __attribute__((weak)); /* early.c */
extern char *early_moved __attribute__((weak));

/* Blocks allocated before malloc was known can be moved and freed like any others. */
static int use_early_blocks(void)
{
    (void)dlsym(RTLD_DEFAULT, "malloc");
    if (&early_kept == NULL || !early_kept || strcmp(early_moved, "moved") != 0)
        return 4;
    char *moved = realloc(early_moved, 100000);
    if (strcmp(moved, "moved") != 0 || strcmp(early_kept, "kept") != 0)
        return 4;
    free(moved);
    free(early_kept);
    return 5;
}

extern char **environ;

/* Passes nine words, more than fit into registers, and the environment where the function takes one. */
static void become(const char *how)
{
    static const char path[] = "/bin/echo";
    char *argv[] = {"echo", "1", "2", "3", "4", "5", "6", "7", "8", NULL};
    if (strcmp(how, "execl") == 0)
        execl(path, "echo", "1", "2", "3", "4", "5", "6", "7", "8", (char *)NULL);
    if (strcmp(how, "execle") == 0)
        execle(path, "echo", "1", "2", "3", "4", "5", "6", "7", "8", (char *)NULL, environ);
    if (strcmp(how, "execlp") == 0)
        execlp("echo", "echo", "1", "2", "3", "4", "5", "6", "7", "8", (char *)NULL);
    if (strcmp(how, "execv") == 0)
        execv(path, argv);
    if (strcmp(how, "execve") == 0)
        execve(path, argv, environ);
    if (strcmp(how, "execvp") == 0)
        execvp("echo", argv);
    if (strcmp(how, "execvpe") == 0)
        execvpe("echo", argv, environ);
    if (strcmp(how, "fexecve") == 0)
        fexecve(open(path, O_RDONLY), argv, environ);
    if (strcmp(how, "execveat") == 0)
        execveat(AT_FDCWD, path, argv, environ, 0);
    if (strcmp(how, "syscall") == 0)
        syscall(SYS_execve, path, argv, environ);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "return", *arg = argc > 2 ? argv[2] : "";
    pthread_t thread;

    if (strcmp(how, "late") == 0) { /* allocates nothing itself before it ends */
        pthread_create(&thread, NULL, leave_late, NULL);
        pthread_exit(NULL);
    }
    if (strcmp(how, "jump") == 0)
        return jump_out_of_hooks();
    make_last();
    if (strcmp(how, "early") == 0)
        return use_early_blocks();
    if (strcmp(how, "return") == 0)
        return 5;
    if (strcmp(how, "exit") == 0)
        exit(5);
    if (strcmp(how, "_exit") == 0)
        _exit(5);
    if (strcmp(how, "_Exit") == 0)
        _Exit(5);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(5);
    if (strcmp(how, "exit_group") == 0)
        syscall(SYS_exit_group, 5);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "signal") == 0) {
        raise(atoi(arg));
        return 3;
    }
    if (strcmp(how, "wait") == 0) { /* for the test to kill it */
        say("ready\n");
        while (!stdin_ended(1000))
            ;
        return 3;
    }
    if (strcmp(how, "busy-exit") == 0) { /* threads that allocate while main's destructors run */
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, forever, NULL);
        pause_ms(50);
        return 5;
    }
    if (strcmp(how, "exits") == 0) { /* several threads in exit at once */
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, exits, NULL);
        for (;;)
            pause();
    }
    if (strcmp(how, "busy-_exit") == 0) {
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, forever, NULL);
        pause_ms(50);
        _exit(5);
    }
    if (strcmp(how, "vfork") == 0)
        return vforks(NULL);
    if (strcmp(how, "vfork-killed") == 0)
        return vforks(make_again);
    if (strcmp(how, "exec") == 0) {
        execlp("/nonexistent/program", "program", (char *)NULL);
        become(arg);
        return 4;
    }
    if (strcmp(how, "daemon") == 0) { /* forks twice, closes everything */
        if (fork())
            _exit(0);
        setsid();
        if (fork())
            _exit(0);
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
        free(make_again());
        make_last();
        int fd = open(arg, O_CREAT | O_WRONLY, 0600);
        exit(fd == 0 ? 0 : 6); /* the lowest number is the program's */
    }
    if (strcmp(how, "libc-daemon") == 0) { /* its parent calls libc's internal _exit, which no interposer sees */
        if (daemon(1, 1))
            return 4;
        int fd = open(arg, O_CREAT | O_WRONLY, 0600);
        exit(fd < 0);
    }
    if (strcmp(how, "close") == 0) { /* closes every descriptor that it did not open, while the agent runs */
        do {
            for (int fd = 3; fd < 1024; fd++)
                close(fd);
            free(make_again());
        } while (!stdin_ended(20));
        return 5;
    }
    if (strcmp(how, "chdir") == 0) {
        if (chdir("/"))
            return 4;
        return 5;
    }
    if (strcmp(how, "six-words") == 0) {
        int fd = memfd_create("six", 0);
        if (ftruncate(fd, 8192) || pwrite(fd, "sixth", 5, 4096) != 5)
            return 4;
        /* mmap's sixth word is the offset */
        char *map = (char *)syscall(SYS_mmap, NULL, 4096L, (long)PROT_READ, (long)MAP_SHARED, (long)fd, 4096L);
        say(memcmp(map, "sixth", 5) == 0 ? "sixth\n" : "lost\n");
        return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 ? 5 : 4;
    }
    if (strcmp(how, "dlclose") == 0) {
        for (int i = 0; i < 200; i++) {
            void *library = dlopen(arg, RTLD_NOW);
            void *(*make)(size_t) = (void *(*)(size_t))dlsym(library, "plugin_make");
            void *ptr = make(64);
            if (dlclose(library))
                return 4;
            if (i % 2)
                free(ptr);
        }
        return 5;
    }
    if (strcmp(how, "dlerror") == 0) { /* the profiler's own searches leave no error behind */
        say(dlerror() ? "an error\n" : "none\n");
        say(dlsym(RTLD_DEFAULT, "no_such_thing") ? "found\n" : "not found\n");
        const char *text = dlerror();
        say(text && strstr(text, "no_such_thing") ? "the right error\n" : "another error\n");
        return 5;
    }
    if (strcmp(how, "threads") == 0) { /* short-lived ones, more than any pool */
        for (int i = 0; i < 2000; i++) {
            if (pthread_create(&thread, NULL, i % 2 ? leave_late : nothing, NULL))
                return 4;
            if (i % 2 == 0)
                pthread_join(thread, NULL);
            else
                pthread_detach(thread);
        }
        return 5;
    }
    return 2;
}
