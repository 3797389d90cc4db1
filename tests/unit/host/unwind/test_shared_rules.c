/* SPDX-License-Identifier: MIT */
/* Unwind rules that are shared over forks: of which objects, between which processes, and which rules are believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/objects/objects.h"
#include "host/unwind/rule.h"
#include "host/unwind/shared_rules.h"
#include "host/unwind/unwind_cache.h"

#define IN_PROGRAM ((uintptr_t)main + 4)
#define IN_LIBC    ((uintptr_t)abort + 4)
#define IN_CMOCKA  ((uintptr_t)_cmocka_run_group_tests + 4)

int main(void);
static dp_object_id program, libc;
static uint32_t early_rule; /* of IN_PROGRAM, before anything was shared */

/* Two rules that the code here does not have. */
static uint32_t rule_of(int64_t words)
{
    struct dp_cfi_row row = {.cfa = DP_CFA_REGISTER,
                             .reg = DP_REG_SP,
                             .offset = words * 8,
                             .ra = {.how = DP_SAVED_OFFSET, .offset = -8},
                             .fp = {.how = DP_SAVED_OFFSET, .offset = -16},
                             .sp = {.how = DP_SAVED_SAME}};
    return dp_rule_make(&row, 0);
}

static void in_a_child(void (*fn)(void))
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        dp_shared_rules_fork_child();
        fn();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define MUST(true)    \
    do {              \
        if (!(true))  \
            _exit(1); \
    } while (0)

static uint32_t cached_rule(uintptr_t pc)
{
    return dp_unwind_cache_rule(dp_unwind_cache_fill(pc + 1, dp_objects_generation()));
}

static int setup(void **state)
{
    if (dp_frames_init(4 << 20) || dp_unwind_cache_init(1 << 16, true))
        return -1;
    uint32_t rule;
    program = dp_object_find(IN_PROGRAM);
    libc = dp_object_find(IN_LIBC);
    dp_shared_rules_put(program, IN_PROGRAM, rule_of(9)); /* there is no shared memory yet */
    if (dp_shared_rules_find(program, IN_PROGRAM, &rule))
        return -1;
    early_rule = cached_rule(IN_PROGRAM);
    dp_unwind_cache_learn();
    return 0;
}

static void what_was_known_before_is_shared(void **state)
{
    uint32_t rule = 0;
    assert_true(dp_shared_rules_find(program, IN_PROGRAM, &rule));
    assert_int_equal(rule, early_rule);
    assert_int_not_equal(rule, rule_of(9));
}

static void child_puts(void)
{
    dp_shared_rules_put(libc, IN_LIBC, rule_of(9));
}

static void what_a_child_found_out_its_siblings_use(void **state)
{
    uint32_t rule;
    assert_false(dp_shared_rules_find(libc, IN_LIBC, &rule));
    in_a_child(child_puts);
    assert_true(dp_shared_rules_find(libc, IN_LIBC, &rule));
    assert_int_equal(rule, rule_of(9));
    assert_int_equal(cached_rule(IN_LIBC), rule_of(9)); /* a false one, but it shows where it came from */
    assert_false(dp_shared_rules_find(libc, IN_LIBC + 1, &rule));
    assert_false(dp_shared_rules_find(program, IN_LIBC, &rule));
}

static dp_object_id late;

/* The children give the same new id to different objects. */
static void one_child_enters_cmocka(void)
{
    uint32_t rule;
    MUST(dp_object_find(IN_CMOCKA) == late);
    dp_shared_rules_put(late, IN_CMOCKA, rule_of(9));
    MUST(!dp_shared_rules_find(late, IN_CMOCKA, &rule));
    dp_unwind_cache_learn(); /* it forks, too: a table for its own children */
    dp_shared_rules_put(late, IN_CMOCKA, rule_of(9));
    MUST(dp_shared_rules_find(late, IN_CMOCKA, &rule) && rule == rule_of(9));
}

static void ids_given_after_the_fork_are_not_shared(void **state)
{
    uint32_t rule;
    late = dp_objects_count();
    in_a_child(one_child_enters_cmocka);
    assert_int_equal(dp_objects_count(), late);
    assert_false(dp_shared_rules_find(late, IN_CMOCKA, &rule));
    assert_int_equal(dp_object_find(IN_CMOCKA), late);
    assert_false(dp_shared_rules_find(late, IN_CMOCKA, &rule)); /* not learned yet */
    dp_unwind_cache_learn();
    assert_false(dp_shared_rules_find(late, IN_CMOCKA, &rule)); /* the child had a table of its own */
    dp_shared_rules_put(late, IN_CMOCKA, rule_of(8));
    assert_true(dp_shared_rules_find(late, IN_CMOCKA, &rule));
    assert_int_equal(rule, rule_of(8));
}

static void a_line_of_children_makes_few_tables(void)
{
    for (int i = 0; i < 50; i++) {
        dp_shared_rules_fork_child();
        void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct dp_loaded another = {.start = (uintptr_t)at, .end = (uintptr_t)at + 4096};
        MUST(dp_object_enter(&another)); /* known to this process only */
        dp_unwind_cache_learn();
    }
    MUST(dp_mem_used() < (size_t)8 << 20);
}

static void tables_are_bounded(void **state)
{
    in_a_child(a_line_of_children_makes_few_tables);
}

static void no_rule_is_believed_that_could_not_have_been_made(void **state)
{
    uint32_t rule, n_valid = 0;
    assert_true(dp_rule_is_valid(dp_rule_none()) && dp_rule_is_valid(dp_rule_signal()));
    assert_true(dp_rule_is_valid(dp_rule_bare(DP_RULE_END)) && dp_rule_is_valid(dp_rule_bare(DP_RULE_LIBUNWIND)));
    for (int64_t words = -3000; words < 3000; words++)
        assert_true(dp_rule_is_valid(rule_of(words)));
    for (uint64_t i = 0; i < 1 << 22; i++) {
        uint32_t any = (uint32_t)(i * 0x9E3779B97F4A7C15u >> 32);
        dp_shared_rules_put(program, IN_PROGRAM + 64, any);
        bool found = dp_shared_rules_find(program, IN_PROGRAM + 64, &rule);
        assert_int_equal(found, dp_rule_is_valid(any));
        n_valid += found;
#if defined(__x86_64__)
        /* the fast path of a walk reads without a look at the bounds what such a rule leads to */
        uint64_t word = (uint64_t)any << 32;
        if (found && (dp_rule_is_usual(word, DP_RULE_SP) || dp_rule_is_usual(word, DP_RULE_FP))) {
            assert_true(dp_rule_usual_offset(word) >= 1 && dp_rule_usual_slot(word) <= 0);
            assert_true((intptr_t)dp_rule_usual_offset(word) + dp_rule_usual_slot(word) >= 0);
        }
#endif
    }
    assert_true(n_valid > 1000 && n_valid < 1 << 21);
}

static void an_object_without_a_build_id_is_not_shared(void **state)
{
    uint32_t rule;
    void *bare = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(bare, MAP_FAILED);
    struct dp_loaded loaded = {.start = (uintptr_t)bare, .end = (uintptr_t)bare + 4096};
    dp_object_id id = dp_object_enter(&loaded);
    assert_int_not_equal(id, 0);
    dp_unwind_cache_learn();
    dp_shared_rules_put(id, loaded.start, rule_of(9));
    assert_false(dp_shared_rules_find(id, loaded.start, &rule));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_known_before_is_shared),
        cmocka_unit_test(what_a_child_found_out_its_siblings_use),
        cmocka_unit_test(ids_given_after_the_fork_are_not_shared),
        cmocka_unit_test(no_rule_is_believed_that_could_not_have_been_made),
        cmocka_unit_test(an_object_without_a_build_id_is_not_shared),
        cmocka_unit_test(tables_are_bounded),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
