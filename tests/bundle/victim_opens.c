/* SPDX-License-Identifier: MIT */
/*
 * victim_opens - opens libdeltaprof and a library that reports events to it, when a thread runs already. That thread
 * and a later one report while main signals them; the handler reports, too. Prints how often the threads and main did.
 * usage: victim_opens LIBDELTAPROF LIBRARY CONF
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { ROUNDS = 100 };

static void (*in_thread)(int thread), (*in_main)(int number), (*in_handler)(int number);
static _Atomic int n_calls, n_signals, is_done;
static sem_t opened;

static void handle(int signal)
{
    (void)signal;
    in_handler(n_signals++);
}

static void *run(void *thread)
{
    do {
        in_thread((int)(intptr_t)thread);
        n_calls++;
    } while (!is_done);
    return thread;
}

static void *run_when_opened(void *thread)
{
    sem_wait(&opened);
    return run(thread);
}

int main(int argc, char **argv)
{
    pthread_t early, late;
    if (argc != 4 || sem_init(&opened, 0, 0) || pthread_create(&early, NULL, run_when_opened, (void *)1))
        return 1;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) ? dlopen(argv[2], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*begin)(const char *) = (int (*)(const char *))dlsym(library, "begin");
    in_thread = (void (*)(int))dlsym(library, "in_thread");
    in_main = (void (*)(int))dlsym(library, "in_main");
    in_handler = (void (*)(int))dlsym(library, "in_handler");
    if (begin(argv[3]) || signal(SIGUSR1, handle) == SIG_ERR)
        return 1;
    sem_post(&opened);
    if (pthread_create(&late, NULL, run, (void *)2))
        return 1;
    for (int i = 0; i < ROUNDS; i++) {
        in_main(i);
        pthread_kill(i % 2 ? early : late, SIGUSR1);
        usleep(1000);
    }
    is_done = 1;
    pthread_join(early, NULL);
    pthread_join(late, NULL);
    printf("%d %d\n", n_calls * 1000, ROUNDS);
    return 0;
}
