/* SPDX-License-Identifier: MIT */
/*
 * victim_dormant [N_CHURNING] - does what its standard input says, a word a line, and answers each line. It reads and
 * writes without malloc. N_CHURNING threads allocate and free blocks all the time, slowly.
 *
 *     old N SIZE     holds N blocks more; free_old frees all of them
 *     kept N SIZE    the same, by another function; free N frees the N oldest of them
 *     warm           allocates and frees 4 MiB, in blocks of 1 KiB
 *     quiet, noise   the churning threads wait, or go on
 *     fork           forks a child with a churning main thread, which lives as long as this process
 *     exec           executes this program again
 *     filter         installs a seccomp filter that allows everything
 *     leave          the main thread ends by pthread_exit
 *     storm          threads that load and unload libraries, fork, and create threads, until `calm`
 */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 100000 };

static void *old_blocks[MOST], *kept_blocks[MOST];
static int n_old, n_kept, n_freed;
static atomic_bool is_quiet, is_calm;
static atomic_int n_bad;
static char *self;

__attribute__((noinline)) static void hold_old(size_t size)
{
    old_blocks[n_old++] = malloc(size);
}

__attribute__((noinline)) static void hold_kept(size_t size)
{
    kept_blocks[n_kept++] = malloc(size);
}

__attribute__((noinline)) static void churn_once(void)
{
    for (int i = 0; i < 50; i++) {
        void *volatile block = malloc(400);
        free(block);
    }
    usleep(1000);
}

static void *churn(void *unused)
{
    for (;;) {
        if (!is_quiet)
            churn_once();
        else
            usleep(1000);
    }
    return unused;
}

static void *leaf(void *unused)
{
    void *volatile block = malloc(3000);
    free(block);
    return unused;
}

static void *load(void *unused)
{
    static const char *const names[] = {"libz.so.1", "liblzma.so.5", "libelf.so.1", "libbz2.so.1.0", "libgcc_s.so.1"};
    for (int i = 0; !is_calm; i++) {
        void *library = dlopen(names[i % 5], RTLD_NOW);
        if (library)
            dlclose(library);
    }
    return unused;
}

static void *make_threads(void *unused)
{
    pthread_t thread;
    while (!is_calm)
        if (!pthread_create(&thread, NULL, leaf, NULL))
            pthread_join(thread, NULL);
    return unused;
}

static void *make_children(void *unused)
{
    for (int i = 0; !is_calm; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            for (int j = 0; j < 300; j++)
                leaf(NULL);
            if (i % 4 == 0 && !pthread_create(&thread, NULL, leaf, NULL))
                pthread_join(thread, NULL);
            _exit(7);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
            n_bad++;
    }
    return unused;
}

static void *storm(void *unused)
{
    void *(*const parts[])(void *) = {load, make_threads, make_children, make_threads};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, parts[i], NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return unused;
}

static void answer(const char *word, long number)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%s %ld\n", word, number);
    (void)!write(1, line, (size_t)n);
}

static int read_line(char *line, int room)
{
    int n = 0;
    while (n < room - 1 && read(0, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    return n;
}

static long install_filter(void)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static long make_child(void)
{
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        close(1);
        while (getppid() == parent)
            churn_once();
        _exit(0);
    }
    return child;
}

int main(int argc, char **argv)
{
    char line[64], word[32];
    int n = 0, size = 0;
    pthread_t thread, stormy;
    self = argv[0];
    for (int i = 0; argc > 1 && i < atoi(argv[1]); i++)
        pthread_create(&thread, NULL, churn, NULL);
    answer("ready", getpid());
    while (read_line(line, sizeof line) && sscanf(line, "%31s %d %d", word, &n, &size) >= 1) {
        long result = 0;
        if (!strcmp(word, "old"))
            for (int i = 0; i < n; i++)
                hold_old((size_t)size);
        else if (!strcmp(word, "free_old"))
            while (n_old)
                free(old_blocks[--n_old]);
        else if (!strcmp(word, "kept"))
            for (int i = 0; i < n; i++)
                hold_kept((size_t)size);
        else if (!strcmp(word, "free"))
            for (int i = 0; i < n; i++)
                free(kept_blocks[n_freed++]);
        else if (!strcmp(word, "warm"))
            for (int i = 0; i < 4096; i++) {
                void *volatile block = malloc(1024);
                free(block);
            }
        else if (!strcmp(word, "churn"))
            churn_once();
        else if (!strcmp(word, "quiet") || !strcmp(word, "noise"))
            is_quiet = *word == 'q';
        else if (!strcmp(word, "fork"))
            result = make_child();
        else if (!strcmp(word, "exec"))
            execv(self, argv);
        else if (!strcmp(word, "filter"))
            result = install_filter();
        else if (!strcmp(word, "storm"))
            result = pthread_create(&stormy, NULL, storm, NULL);
        else if (!strcmp(word, "calm")) {
            is_calm = true;
            pthread_join(stormy, NULL);
            result = n_bad;
        } else if (!strcmp(word, "leave"))
            pthread_exit(NULL);
        answer(word, result);
    }
    return 5;
}
