/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "host/records/stack_fingerprint.c" /* each way to a key, whatever this processor would choose */

#define DEPTH_MAX 67

static uintptr_t stack[DEPTH_MAX + 1];

static void fill(uint64_t seed)
{
    for (size_t i = 0; i <= DEPTH_MAX; i++)
        stack[i] = dp_hash_mix(seed + i + 1);
}

/* Every word of the first depth makes a difference, their order and number do, and what lies behind does not. */
static void check(struct dp_records_stack_fingerprint (*way)(const uintptr_t *, size_t))
{
    for (size_t depth = 0; depth < DEPTH_MAX; depth++) {
        fill(depth);
        struct dp_records_stack_fingerprint key = way(stack, depth), other;
        stack[depth] ^= 1;
        other = way(stack, depth);
        assert_true(dp_records_stack_fingerprint_equal(&key, &other));
        other = way(stack, depth + 1);
        assert_false(dp_records_stack_fingerprint_equal(&key, &other));
        for (size_t i = 0; i < depth; i++) {
            stack[i] ^= 1;
            other = way(stack, depth);
            assert_false(dp_records_stack_fingerprint_equal(&key, &other));
            stack[i] ^= 1;
        }
        if (depth > 1) {
            uintptr_t last = stack[depth - 1];
            stack[depth - 1] = stack[0];
            stack[0] = last;
            other = way(stack, depth);
            assert_false(dp_records_stack_fingerprint_equal(&key, &other));
        }
    }
}

TEST(integers_tell_stacks_apart)
{
    check(hash_integers);
}

TEST(trailing_zeros_count)
{
    static const uintptr_t zeros[8];
    for (size_t depth = 0; depth < 8; depth++) {
        struct dp_records_stack_fingerprint key = dp_records_stack_fingerprint_of(zeros, depth),
                                            other = dp_records_stack_fingerprint_of(zeros, depth + 1);
        assert_false(dp_records_stack_fingerprint_equal(&key, &other));
    }
}

#if defined(__x86_64__)
TEST(polynomials_tell_stacks_apart)
{
    if (choose_method() == INTEGERS)
        skip();
    check(hash_polynomials);
}

TEST(wide_polynomials_give_the_same)
{
    if (choose_method() != WIDE_POLYNOMIALS)
        skip();
    check(hash_wide_polynomials);
    for (size_t depth = 0; depth <= DEPTH_MAX; depth++) {
        fill(depth);
        struct dp_records_stack_fingerprint narrow = hash_polynomials(stack, depth),
                                            wide = hash_wide_polynomials(stack, depth);
        assert_true(dp_records_stack_fingerprint_equal(&narrow, &wide));
    }
}
#endif

int main(void)
{
    dp_records_stack_fingerprint_init();
    return run_unit(NULL, NULL);
}
