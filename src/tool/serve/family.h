/* SPDX-License-Identifier: MIT */
/* tool/serve/family.h - all that the endpoint knows: the processes and the cursors, behind one lock. */
#pragma once

#include "tool/serve/cursors.h"

#include <pthread.h>

struct dp_serve_family {
    pthread_mutex_t lock; /* of all below */
    struct dp_serve_workers workers;
    struct dp_serve_cursors cursors;
};

extern struct dp_serve_family dp_serve_family;
