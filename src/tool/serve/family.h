/* SPDX-License-Identifier: MIT */
/* tool/serve/family.h - the state of the endpoint: the processes and the cursors, under one lock. */
#pragma once

#include "base/atomic.h"
#include "tool/serve/cursors.h"
#include "tool/serve/saved.h"

#include <pthread.h>

struct dp_serve_family {
    pthread_mutex_t lock;      /* held to use the other members */
    _Atomic uint32_t n_asking; /* requests that wait for the lock; relaxed: the other thread lets them go first */
    struct dp_serve_workers workers;
    struct dp_serve_cursors cursors;
    struct dp_serve_saved saved; /* the file of cursors */
    const char *out;             /* where this program writes files; "": nowhere */
};

extern struct dp_serve_family dp_serve_family;
