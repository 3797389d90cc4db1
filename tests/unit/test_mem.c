/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"

static void nothing_beyond_the_cap_is_mapped(void **state)
{
    size_t before = dp_mem_used();
    dp_mem_cap(before + (1 << 20));
    void *half = dp_mem_map(512 << 10);
    assert_non_null(half);
    assert_null(dp_mem_map(513 << 10));
    assert_int_equal(dp_mem_used(), before + (512 << 10));
    assert_null(dp_mem_remap(half, 512 << 10, 2 << 20));
    dp_mem_unmap(half, 512 << 10);
    assert_int_equal(dp_mem_used(), before);
    assert_null(dp_mem_map(SIZE_MAX));
    assert_int_equal(dp_mem_used(), before);
    dp_mem_cap(64 << 20);
}

static void a_vector_keeps_its_elements_when_it_grows(void **state)
{
    DP_VEC(uint64_t) v = {0};
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t *p = dp_vec_push(&v);
        assert_non_null(p);
        *p = i * 3;
    }
    for (uint64_t i = 0; i < 100000; i++)
        assert_int_equal(v.at[i], i * 3);
    size_t used = dp_mem_used();
    assert_true(used >= 800000);
    dp_vec_fini(&v);
    assert_true(dp_mem_used() < used);
    assert_null(v.at);
}

static void tables_are_carved_from_one_reservation_and_charged(void **state)
{
    size_t before = dp_mem_used();
    dp_mem_reserve(10 * 4096);
    assert_int_equal(dp_mem_used(), before);
    char *first = dp_mem_table(4097), *second = dp_mem_table(4096);
    assert_ptr_equal(second, first + 8192);
    assert_int_equal(first[8191], 0);
    first[8191] = second[4095] = 1;
    assert_int_equal(dp_mem_used(), before + 3 * 4096);
    char *beyond = dp_mem_table(8 * 4096); /* seven pages are left */
    assert_non_null(beyond);
    assert_true(beyond + 8 * 4096 <= first || beyond >= first + 10 * 4096);
    char *rest = dp_mem_table(7 * 4096);
    assert_ptr_equal(rest, second + 4096);
    dp_mem_cap(dp_mem_used());
    assert_null(dp_mem_table(1));
    dp_mem_cap(64 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_beyond_the_cap_is_mapped),
        cmocka_unit_test(tables_are_carved_from_one_reservation_and_charged),
        cmocka_unit_test(a_vector_keeps_its_elements_when_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
