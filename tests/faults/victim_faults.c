/* SPDX-License-Identifier: MIT */
/*
 * victim_faults PLUGIN - a short program that uses all functions that the profiler hooks, and prints their results.
 *
 * Heap, locks, threads, signals, a stack for signals, dlopen, descriptors, forks that end in four ways. What it prints
 * and its status must not depend on any failure of the profiler. It waits for the end of its standard input before it
 * exits with 7, so that a driver can ask the endpoint meanwhile.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_THREADS = 3, N_BLOCKS = 500, N_TURNS = 200 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int turns;
static volatile sig_atomic_t n_signals;
static volatile char *signal_sp;

__attribute__((noinline)) void *faults_make(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" ::"r"(p) : "memory");
    return p;
}

static void fill_and_free(int n)
{
    for (int i = 0; i < n; i++) {
        errno = 77;
        char *p = faults_make(100);
        memset(p, i, 100);
        free(p);
        if (errno != 77)
            printf("errno became %d\n", errno);
    }
}

static void *work(void *arg)
{
    fill_and_free(N_BLOCKS);
    for (int i = 0; i < N_TURNS; i++) {
        pthread_mutex_lock(&lock);
        if (++turns % 50 == 0)
            usleep(1000);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

static void on_signal(int sig)
{
    char here;
    signal_sp = &here;
    n_signals++;
}

static void signals(void)
{
    static char stack[65536];
    stack_t mine = {.ss_sp = stack, .ss_size = sizeof stack}, seen;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART}, old;
    sigset_t mask;
    sigaltstack(&mine, NULL);
    int err = sigaction(SIGUSR1, &action, &old);
    for (int i = 0; i < 5; i++)
        raise(SIGUSR1);
    sigaltstack(NULL, &seen);
    sigaction(SIGTERM, NULL, &old);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    printf("signals %d, %d, %s, on my stack %d, SIGTERM default %d, blocked %d\n", (int)n_signals, err,
           seen.ss_sp == stack ? "kept" : "changed",
           (char *)signal_sp >= stack && (char *)signal_sp < stack + sizeof stack, old.sa_handler == SIG_DFL,
           sigismember(&mask, SIGUSR1) || sigismember(&mask, SIGTERM));
}

static void plugin(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *(*make)(size_t) = handle ? (void *(*)(size_t))dlsym(handle, "plugin_make") : NULL;
    free(make ? make(10) : NULL);
    printf("plugin %d, closed %d\n", make != NULL, handle ? dlclose(handle) : -1);
}

static void one_child(int how)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        fill_and_free(10);
        if (how == 0)
            exit(5);
        if (how == 1)
            _exit(6);
        if (how == 2)
            kill(getpid(), SIGTERM);
        execl("/bin/true", "true", (char *)NULL);
        _exit(8);
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    printf("child %d ended %#x\n", how, (unsigned)status);
}

int main(int argc, char **argv)
{
    pthread_t threads[N_THREADS];
    struct stat st;
    struct rlimit files;
    if (argc < 2)
        return 2;
    fill_and_free(N_BLOCKS);
    usleep(150000); /* in a program with one thread the profiler creates its thread late */
    fill_and_free(N_BLOCKS);
    for (long i = 0; i < N_THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i))
            printf("no thread\n");
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("turns %d\n", turns);
    int fd = open("/dev/null", O_RDONLY), other = dup(fd);
    printf("descriptors %d %d\n", fd, other);
    close(fd);
    close(other);
    signals();
    plugin(argv[1]);
    for (int how = 0; how < 4; how++)
        one_child(how);
    fflush(stdout);
    for (char byte; read(STDIN_FILENO, &byte, 1) > 0;)
        fill_and_free(1);
    fill_and_free(N_BLOCKS);
    printf("blocks %d\n", (3 + N_THREADS) * N_BLOCKS);
    getrlimit(RLIMIT_NOFILE, &files);
    mode_t mask = umask(0);
    umask(mask);
    printf("umask %o, here %d, standard output %d\n", (unsigned)mask, stat(".", &st),
           fcntl(STDOUT_FILENO, F_GETFL) >= 0);
    exit(7);
}
