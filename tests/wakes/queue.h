// SPDX-License-Identifier: MIT
// A queue of which only the length is kept.
#pragma once

#include <pthread.h>

static int n_items;

static inline void take_item(pthread_mutex_t *mutex, pthread_cond_t *event)
{
    pthread_mutex_lock(mutex);
    while (n_items == 0)
        pthread_cond_wait(event, mutex);
    n_items--;
    pthread_mutex_unlock(mutex);
}

static inline void put_item(pthread_mutex_t *mutex, pthread_cond_t *event)
{
    pthread_mutex_lock(mutex);
    n_items++;
    pthread_cond_signal(event);
    pthread_mutex_unlock(mutex);
}
