/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/order.h - models of blocks that are freed in the order in which they were allocated: queues, rings, caches
 * that evict the oldest, sessions that time out.
 */
#pragma once

#include "tool/leaks/models.h"

/* Logarithms of likelihoods, in the unit of the other models. -INFINITY: there are too few allocations to see an order.
 */
struct dp_leaks_order {
    double goes_on, none;               /* growth that goes on; that has ended, or never was */
    double constant;                    /* of the latter, that the time is constant for which blocks live */
    double random_goes_on, random_none; /* the same, of blocks that live for random times */
};

/* Of blocks that turn over. */
struct dp_leaks_order dp_leaks_order_compare(const struct dp_leaks_window *);
