/* SPDX-License-Identifier: MIT */
/*
 * host/records/stack_fingerprint.c - computes fingerprints of stacks by the universal hash NH with two Toeplitz shifts,
 * on 64-bit words.
 *
 * Source: Black, Halevi, Krawczyk, Krovetz, Rogaway, "UMAC: Fast and Secure Message Authentication", section 4. The
 * hash of the message m with the key k is the sum of (m[2i] + k[2i]) * (m[2i+1] + k[2i+1]), with w-bit additions and a
 * 2w-bit sum. Two messages of one length have the same hash with probability 2^-w, and all of t hashes, each with the
 * key shifted by two words more, with 2^-wt (here w = 64, t = 2). The first word of a message here is its length.
 *
 * If the processor has a carry-less multiplication, the words are polynomials over GF(2) instead of integers, with the
 * same bounds (CLNH: Lemire and Kaser, "Faster 64-bit universal hashing using carry-less multiplications"): one
 * instruction multiplies two words, or four with VPCLMULQDQ, which gives the same fingerprints. A process uses one
 * method for all its fingerprints.
 */
#include "host/records/stack_fingerprint.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "base/mem.h"
#include "host/unwind/stack.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/random.h>
#include <unistd.h>

__extension__ typedef unsigned __int128 wide;

#define KEY_WORDS (DP_STACK_MAX + 8)

static DP_LARGE uint64_t key[KEY_WORDS];
static enum method { INTEGERS, POLYNOMIALS, WIDE_POLYNOMIALS } method; /* chosen when the key is made */
static enum method choose_method(void);
static _Atomic int state; /* 0: no key, 1: a thread is making it, 2: ready */

/*
 * [KEY] state 2 is stored with release and loaded with acquire; else a thread could hash with an incomplete key. In a
 * child that was forked while a thread was making the key, state stays 1. So a thread that has waited 0.1 s makes the
 * key itself. If the other thread was only slow, fingerprints made in between are of a mixed key: these stacks are not
 * found again, and are entered a second time.
 */
void dp_records_stack_fingerprint_init(void)
{
    if (dp_load_acquire(&state) == 2) /* [KEY] */
        return;
    int none = 0;
    if (!dp_cas_relaxed(&state, &none, 1)) {
        for (int i = 0; i < 1000 && dp_load_acquire(&state) != 2; i++) /* [KEY] */
            usleep(100);
        if (dp_load_acquire(&state) == 2)
            return;
    }
    int saved = errno;
    size_t have = 0;
    while (have < sizeof key) {
        ssize_t got = getrandom((char *)key + have, sizeof key - have, GRND_NONBLOCK);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    uint64_t seed = (uint64_t)dp_clock_wall_ns() ^ (uintptr_t)&have; /* if getrandom is forbidden */
    for (size_t i = have / sizeof *key; i < KEY_WORDS; i++)
        key[i] = dp_hash_mix(seed += 0x9E3779B97F4A7C15u);
    errno = saved;
    method = choose_method();
    dp_store_release(&state, 2); /* [KEY] */
}

/* (x + k0) * (y + k1) */
static inline wide multiply_integers(uint64_t x, uint64_t y, const uint64_t *k)
{
    return (wide)(x + k[0]) * (y + k[1]);
}

static struct dp_records_stack_fingerprint hash_integers(const uintptr_t *stack, size_t depth)
{
    const uint64_t *k = key + 2;
    wide a = multiply_integers(depth, 0, key), b = multiply_integers(depth, 0, key + 2);
    size_t i = 0;
    for (; i + 2 <= depth; i += 2) {
        a += multiply_integers(stack[i], stack[i + 1], k + i);
        b += multiply_integers(stack[i], stack[i + 1], k + i + 2);
    }
    if (i < depth) {
        a += multiply_integers(stack[i], 0, k + i);
        b += multiply_integers(stack[i], 0, k + i + 2);
    }
    return (struct dp_records_stack_fingerprint){{(uint64_t)a, (uint64_t)(a >> 64), (uint64_t)b, (uint64_t)(b >> 64)}};
}

#if defined(__x86_64__)
#include <immintrin.h>

#define CARRY_LESS __attribute__((target("pclmul,sse2")))

/* (x0 + k0) * (x1 + k1), + being xor */
CARRY_LESS static inline __m128i multiply_polynomials(__m128i x, const uint64_t *k)
{
    x = _mm_xor_si128(x, _mm_loadu_si128((const __m128i *)k));
    return _mm_clmulepi64_si128(x, x, 0x10);
}

/* Adds the length and the words from i on to a and b, the sums of the words before i. Returns the fingerprint. */
CARRY_LESS static inline struct dp_records_stack_fingerprint
finish_polynomials(__m128i a, __m128i b, const uintptr_t *stack, size_t i, size_t depth)
{
    const uint64_t *k = key + 2;
    __m128i length = _mm_cvtsi64_si128((long long)depth);
    a = _mm_xor_si128(a, multiply_polynomials(length, key));
    b = _mm_xor_si128(b, multiply_polynomials(length, key + 2));
    for (; i + 2 <= depth; i += 2) {
        __m128i x = _mm_loadu_si128((const __m128i *)(stack + i));
        a = _mm_xor_si128(a, multiply_polynomials(x, k + i));
        b = _mm_xor_si128(b, multiply_polynomials(x, k + i + 2));
    }
    if (i < depth) {
        __m128i x = _mm_cvtsi64_si128((long long)stack[i]);
        a = _mm_xor_si128(a, multiply_polynomials(x, k + i));
        b = _mm_xor_si128(b, multiply_polynomials(x, k + i + 2));
    }
    struct dp_records_stack_fingerprint out;
    _mm_storeu_si128((__m128i *)&out.word[0], a);
    _mm_storeu_si128((__m128i *)&out.word[2], b);
    return out;
}

CARRY_LESS static struct dp_records_stack_fingerprint hash_polynomials(const uintptr_t *stack, size_t depth)
{
    return finish_polynomials(_mm_setzero_si128(), _mm_setzero_si128(), stack, 0, depth);
}

#define WIDE __attribute__((target("vpclmulqdq,pclmul,avx2")))

/* Two multiplications at once: of the words 0 and 1, and of the words 2 and 3. */
WIDE static inline __m256i multiply_wide(__m256i x, const uint64_t *k)
{
    x = _mm256_xor_si256(x, _mm256_loadu_si256((const __m256i *)k));
    return _mm256_clmulepi64_epi128(x, x, 0x10);
}

WIDE static inline __m128i add_halves(__m256i x)
{
    return _mm_xor_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

WIDE static struct dp_records_stack_fingerprint hash_wide_polynomials(const uintptr_t *stack, size_t depth)
{
    const uint64_t *k = key + 2;
    __m256i a = _mm256_setzero_si256(), b = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 4 <= depth; i += 4) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(stack + i));
        a = _mm256_xor_si256(a, multiply_wide(x, k + i));
        b = _mm256_xor_si256(b, multiply_wide(x, k + i + 2));
    }
    return finish_polynomials(add_halves(a), add_halves(b), stack, i, depth);
}

static enum method choose_method(void)
{
    if (!dp_cpu_has_pclmul())
        return INTEGERS;
    return dp_cpu_has_vpclmul() ? WIDE_POLYNOMIALS : POLYNOMIALS;
}
#else
#define hash_polynomials      hash_integers
#define hash_wide_polynomials hash_integers
static enum method choose_method(void)
{
    return INTEGERS;
}
#endif

struct dp_records_stack_fingerprint dp_records_stack_fingerprint_of(const uintptr_t *stack, size_t depth)
{
    return method == WIDE_POLYNOMIALS ? hash_wide_polynomials(stack, depth)
           : method == POLYNOMIALS    ? hash_polynomials(stack, depth)
                                      : hash_integers(stack, depth);
}
