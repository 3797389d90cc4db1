/* SPDX-License-Identifier: MIT */
/*
 * Asks to be told by a signal when a message comes into its queue, before the profiler's thread exists; lets that
 * thread write a profile; then a child sends a message. Prints whether it was told. usage: victim_queue
 * PATTERN-OF-THE-PROFILE
 */
#include <fcntl.h>
#include <glob.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *allocate(void *unused)
{
    for (int i = 0; i < 1000; i++)
        free(malloc(1000));
    return unused;
}

int main(int argc, char **argv)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct timespec most = {20, 0};
    pthread_t thread;
    sigset_t set;
    glob_t files;
    char name[64];
    if (argc != 2)
        return 2;
    snprintf(name, sizeof name, "/deltaprof-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, NULL);
    if (queue < 0)
        return 77;
    mq_unlink(name);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (mq_notify(queue, &event) || pthread_create(&thread, NULL, allocate, NULL) || pthread_join(thread, NULL))
        return 1;
    for (int i = 0; i < 6000 && glob(argv[1], 0, NULL, &files); i++)
        usleep(10000);
    pid_t child = fork();
    if (!child)
        _exit(mq_send(queue, "1", 1, 0) ? 1 : 0);
    waitpid(child, NULL, 0);
    int sig = sigtimedwait(&set, NULL, &most);
    puts(sig == SIGUSR1 ? "told" : "not told");
    return 0;
}
