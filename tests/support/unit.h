/* SPDX-License-Identifier: MIT */
/*
 * unit.h - a program of cmocka tests. TEST(a_sentence) { ... } defines a test, and UNIT(setup, teardown) runs all tests
 * of the file, in the order of their lines, between the two.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

enum { UNIT_TESTS = 64 };
static struct CMUnitTest unit_tests[UNIT_TESTS];
static size_t n_unit_tests;

/* For a program that does something before or after its tests. */
static inline int run_unit(int (*setup)(void **), int (*teardown)(void **))
{
    return _cmocka_run_group_tests("tests", unit_tests, n_unit_tests, setup, teardown);
}

/* With functions that run before and after this test; either may be NULL. */
#define TEST_WITH(its_setup, its_teardown, name)                                                      \
    static void name(void **state);                                                                   \
    static void __attribute__((constructor(1000 + __LINE__))) add_##name(void)                        \
    {                                                                                                 \
        if (n_unit_tests == UNIT_TESTS)                                                               \
            abort();                                                                                  \
        unit_tests[n_unit_tests++] = (struct CMUnitTest){#name, name, its_setup, its_teardown, NULL}; \
    }                                                                                                 \
    static void name(void **state)

#define TEST(name) TEST_WITH(NULL, NULL, name)

#define UNIT(setup, teardown)             \
    int main(void)                        \
    {                                     \
        return run_unit(setup, teardown); \
    }
