/* SPDX-License-Identifier: MIT */
/*
 * host/thread/sample.h - computes when the next sample is due, and its weight.
 *
 * Each byte starts a sample with probability 1/rate, independently: the distance to the next is geometric, taken as
 * floor(-rate * ln u), and an allocation of n bytes is sampled with p = 1 - exp(-n / rate). It then stands for 1/p
 * allocations (its weight), rounded to an integer at random, so that sums are unbiased and a free can subtract exactly
 * what its alloc added. Pure functions of a generator's state. Context: hook.
 */
#pragma once

#include <stdint.h>

#define DP_RATE_MAX ((int64_t)1 << 31) /* a weight is at most about the rate, and is kept in 32 bits */

/* A random generator. Repeats after 2^64 draws; any seed is good. */
struct dp_thread_random_state {
    uint64_t state;
};
void dp_thread_random_seed(struct dp_thread_random_state *random, uint64_t seed);
uint64_t dp_thread_random_next(struct dp_thread_random_state *random);

/*
 * ln x for x in (0, 1], and 1 - exp(-x) for x >= 0, to a few units in the last place. They are here because the core
 * does not link libm.
 */
double dp_thread_sample_ln(double x);
double dp_thread_sample_probability(double x);

/* Bytes until the next sample; rate >= 1. 0 for rate 1, where every event is a sample. */
int64_t dp_thread_sample_distance(struct dp_thread_random_state *random, int64_t rate);

/*
 * The weight of a sampled allocation of n_bytes (0 counts as 1): the number of allocations that it stands for, drawn at
 * random. 1 for rate 1.
 */
uint32_t dp_thread_sample_weight(struct dp_thread_random_state *random, uint64_t n_bytes, int64_t rate);
