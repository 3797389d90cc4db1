/* SPDX-License-Identifier: MIT */
/* Calls functions that another interposer may have, too: 3 mutex locks, 2 read locks, 5 sigactions. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

int main(void)
{
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
    struct sigaction act = {.sa_handler = SIG_IGN};
    int err = 0;
    for (int i = 0; i < 3; i++)
        err |= pthread_mutex_lock(&m) | pthread_mutex_unlock(&m);
    for (int i = 0; i < 2; i++)
        err |= pthread_rwlock_rdlock(&l) | pthread_rwlock_unlock(&l);
    for (int i = 0; i < 5; i++)
        err |= sigaction(SIGUSR1, &act, NULL);
    void *volatile block = malloc(1 << 20);
    return err || !block;
}
