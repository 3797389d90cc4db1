/* SPDX-License-Identifier: MIT */
/*
 * victim_errno - makes calls that succeed, sometimes after a wait, and prints errno after each of them, one line a
 * call. Before each call errno is set to another value.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#define BEFORE 96

/* Prints one line for each call, however often it was made: the first errno that differs from the value before. */
#define KEEPS(call)                      \
    do {                                 \
        errno = BEFORE;                  \
        long result_ = (long)(call);     \
        say(#call, result_ != 0, errno); \
    } while (0)

static struct said {
    const char *what;
    int failed, error;
} said[64];
static int n_said;

static void say(const char *what, int failed, int error)
{
    int i = 0;
    while (i < n_said && strcmp(said[i].what, what) != 0)
        i++;
    if (i == n_said)
        said[n_said++] = (struct said){what, failed, error};
    else if (error != BEFORE)
        said[i].error = error;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct said *)a)->what, ((const struct said *)b)->what);
}

static void print_all(void)
{
    qsort(said, (size_t)n_said, sizeof *said, by_name);
    for (int i = 0; i < n_said; i++)
        printf("%-60s failed %d errno %d\n", said[i].what, said[i].failed, said[i].error);
    fflush(stdout);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t sem;
static mtx_t mtx;
static int turn;

/* Holds all locks for a while, again and again, each time until the other thread waits. */
static void *holder(void *arg)
{
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&mutex);
        pthread_rwlock_wrlock(&rwlock);
        pthread_spin_lock(&spin);
        mtx_lock(&mtx);
        pthread_barrier_wait(&barrier);
        usleep(1000);
        mtx_unlock(&mtx);
        usleep(1000);
        pthread_spin_unlock(&spin);
        usleep(1000);
        pthread_rwlock_unlock(&rwlock);
        usleep(1000);
        pthread_mutex_unlock(&mutex);
        usleep(1000);
        pthread_mutex_lock(&mutex);
        turn++;
        pthread_cond_signal(&cond);
        pthread_mutex_unlock(&mutex);
        usleep(1000);
        sem_post(&sem);
        pthread_barrier_wait(&barrier);
    }
    return arg;
}

static void *wants(void *arg)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return arg;
}

static void waits(void)
{
    pthread_t thread, other;
    pthread_create(&thread, NULL, holder, NULL);
    for (int i = 0; i < 20; i++) {
        pthread_barrier_wait(&barrier);
        KEEPS(mtx_lock(&mtx));
        KEEPS(mtx_unlock(&mtx));
        KEEPS(pthread_spin_lock(&spin));
        pthread_spin_unlock(&spin);
        KEEPS(pthread_rwlock_rdlock(&rwlock));
        KEEPS(pthread_rwlock_unlock(&rwlock));
        KEEPS(pthread_mutex_lock(&mutex));
        while (turn <= i)
            KEEPS(pthread_cond_wait(&cond, &mutex));
        pthread_create(&other, NULL, wants, NULL);
        usleep(1000);
        KEEPS(pthread_mutex_unlock(&mutex));
        KEEPS(pthread_join(other, NULL));
        KEEPS(sem_wait(&sem));
        pthread_barrier_wait(&barrier);
    }
    pthread_join(thread, NULL);
}

static void jumps(void)
{
    jmp_buf env;
    errno = BEFORE;
    if (!setjmp(env))
        longjmp(env, 1);
    say("longjmp", 0, errno);
}

static void forks(void)
{
    errno = BEFORE;
    pid_t pid = fork();
    int error = errno, status = 0;
    if (!pid)
        _exit(error == BEFORE ? 0 : 1);
    waitpid(pid, &status, 0);
    say("fork, parent", pid < 0, error);
    say("fork, child", status, BEFORE);
}

static void *held[1000];

static void allocates(void)
{
    for (int i = 0; i < 1000; i++) {
        KEEPS(!(held[i] = malloc((size_t)i)));
        KEEPS(!(held[i] = realloc(held[i], (size_t)i + 100)));
    }
    for (int i = 0; i < 1000; i++)
        KEEPS((free(held[i]), 0));
}

static void at_exit(void)
{
    say("exit", 0, errno);
    print_all();
}

int main(int argc, char **argv)
{
    char *nothing[] = {(char *)"nothing", NULL};
    mtx_init(&mtx, mtx_plain);
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&barrier, NULL, 2);
    sem_init(&sem, 0, 0);
    atexit(at_exit);
    allocates();
    usleep(30000);
    allocates(); /* a tick is due: the profiler starts its thread */
    waits();
    jumps();
    forks();
    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW);
        KEEPS(dlclose(library));
    }
    KEEPS(execv("/no/such/file", nothing) + 1);
    KEEPS(signal(SIGTERM, SIG_DFL));
    KEEPS(raise(SIGURG)); /* ignored, or `signal` of the profiler */
    KEEPS(unshare(0));
    KEEPS(prctl(PR_SET_NAME, "errno"));
    KEEPS(syscall(SYS_getpid) * 0);
    errno = BEFORE;
    exit(3);
}
