/* SPDX-License-Identifier: MIT */
/* Threads compete for too few rows of the unwind cache: a found pair of words must always come from one row. */
#include "host/objects/frames.h"
#include "host/objects/objects.h"
#include "host/unwind/unwind_cache.h"
#include "stress.h"

#include <dlfcn.h>

#define THREADS 4u
#define ROWS    2u /* of the cache that are used */
#define RIVALS  8u /* addresses to a row */

static uintptr_t base;
/* the frames of the addresses; a row holds the id, and does not publish the frame */
static dp_frame_id frames[ROWS * RIVALS];
static _Atomic uint64_t n_looks;

static uintptr_t address(uint64_t i)
{
    return base + i % ROWS * 2 + i / ROWS % RIVALS * (dp_unwind_cache_mask + 2);
}

static void look(unsigned thread)
{
    int64_t end = stress_now_ms() + stress_length_ms();
    uint64_t random = thread + 1, n = 0;
    while (n % 1024 || stress_now_ms() < end) {
        uint64_t i = (stress_random(&random) >> 32) % (ROWS * RIVALS);
        uint64_t value = dp_unwind_cache_get(address(i), dp_objects_generation());
        CHECK(dp_unwind_cache_frame(value) == frames[i], "look %llu", (unsigned long long)n);
        n++;
    }
    atomic_fetch_add(&n_looks, n);
}

int main(void)
{
    base = (uintptr_t)dlsym(RTLD_DEFAULT, "qsort") | 1;
    CHECK(!dp_frames_init(4 << 20) && !dp_unwind_cache_init(0, true));
    CHECK(dp_object_find(base)); /* for an address without an object nothing is stored */
    for (uint64_t i = 0; i < ROWS * RIVALS; i++)
        CHECK((frames[i] = dp_frame_intern(address(i) - 1)));
    stress_threads(THREADS, look);
    printf("%llu looks\n", (unsigned long long)n_looks);
    return 0;
}
