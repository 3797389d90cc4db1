/* SPDX-License-Identifier: MIT */
/*
 * victim_clockless OUT - linked with the hooks. A thread traps its time stamp counter, waits for a lock, allocates,
 * takes a delta, and has profiles written. Prints how many bytes the delta has: more than 0, or an error. Status 77:
 * the counter cannot be trapped.
 */
#include <deltaprof/deltaprof.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t about_to_wait;
static void *volatile kept;

static int count(void *ctx, const void *bytes, size_t n_bytes)
{
    (void)bytes;
    *(size_t *)ctx += n_bytes;
    return 0;
}

static void *clockless(void *unused)
{
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
        _exit(77);
    sem_post(&about_to_wait);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    kept = malloc(1000);
    struct deltaprof_delta *delta = deltaprof_delta_new(DELTAPROF_BLOCK);
    size_t n_bytes = 0;
    int err = deltaprof_delta_write(delta, count, &n_bytes);
    deltaprof_delta_free(delta);
    printf("write %d, bytes %s\n", err, n_bytes ? "yes" : "no");
    return unused;
}

int main(int argc, char **argv)
{
    char conf[1200];
    snprintf(conf, sizeof conf, "heap_rate=1,block_rate=1ns,interval=0,log=none,out=%s", argv[argc - 1]);
    pthread_t thread;
    if (deltaprof_start(conf) || sem_init(&about_to_wait, 0, 0))
        return 1;
    pthread_mutex_lock(&lock);
    if (pthread_create(&thread, NULL, clockless, NULL))
        return 1;
    sem_wait(&about_to_wait);
    usleep(50000); /* so that it most often waits; right in any case */
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    return 0;
}
