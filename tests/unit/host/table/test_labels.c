/* SPDX-License-Identifier: MIT */
#include "host/table/labels.h"

#include <deltaprof/deltaprof.h>
#include <deltaprof/hooks.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct dp_label pairs[8];

static uint32_t labels_now(void)
{
    const struct dp_stack stack = {.depth = 0};
    return dp_labels_now(&stack);
}

static size_t now(void)
{
    return dp_labels_get(labels_now(), pairs, 8);
}

static void pairs_nest(void **state)
{
    deltaprof_label_push("endpoint", "/x");
    deltaprof_label_push("tenant", "blue");
    assert_int_equal(now(), 2);
    assert_string_equal(pairs[0].key, "tenant");
    assert_string_equal(pairs[0].value, "blue");
    assert_string_equal(pairs[1].value, "/x");
    deltaprof_label_pop();
    assert_int_equal(now(), 1);
    deltaprof_label_pop();
    assert_int_equal(now(), 0);
    deltaprof_label_pop();
    assert_int_equal(labels_now(), 0);
}

static void the_same_pairs_are_the_same_set(void **state)
{
    deltaprof_label_push("endpoint", "/x");
    uint32_t first = labels_now();
    deltaprof_label_pop();
    char copy[] = "endpoint";
    deltaprof_label_push(copy, "/x");
    assert_int_equal(labels_now(), first);
    deltaprof_label_push("endpoint", "/y");
    assert_int_not_equal(labels_now(), first);
    deltaprof_labels_swap(0);
}

static void a_runtime_gives_labels_with_a_stack(void **state)
{
    deltaprof_label_push("endpoint", "/x");
    deltaprof_label_push("endpoint", "/task");
    struct dp_stack stack = {.labels = deltaprof_labels_swap(0)};
    deltaprof_label_push("endpoint", "/thread");
    assert_int_equal(dp_labels_get(dp_labels_now(&stack), pairs, 8), 1);
    assert_string_equal(pairs[0].value, "/task");
    stack.labels = DP_LABEL_SETS + 1; /* no set: the thread's own */
    assert_int_equal(dp_labels_now(&stack), labels_now());
    deltaprof_labels_swap(0);
}

static void an_inner_pair_hides_an_outer_one_of_its_key(void **state)
{
    deltaprof_label_push("endpoint", "/x");
    deltaprof_label_push("endpoint", "/y");
    assert_int_equal(now(), 1);
    assert_string_equal(pairs[0].value, "/y");
    deltaprof_label_pop();
    assert_string_equal((now(), pairs[0].value), "/x");
    deltaprof_label_pop();
}

static void a_lock_s_kind_stands_beside_them(void **state)
{
    deltaprof_label_push("endpoint", "/x");
    assert_int_equal(dp_labels_get(labels_now() | dp_labels_of_lock(DELTAPROF_LOCK_COND), pairs, 8), 2);
    assert_string_equal(pairs[0].key, "lock");
    assert_string_equal(pairs[0].value, "cond");
    assert_string_equal(pairs[1].value, "/x");
    deltaprof_label_pop();
}

static void reserved_keys_give_no_label_and_their_pops_match(void **state)
{
    deltaprof_label_push("endpoint", "/x");
    deltaprof_label_push("lock", "mine");
    deltaprof_label_push(NULL, "y");
    deltaprof_label_push("pprof::x", "y");
    assert_int_equal(now(), 1);
    deltaprof_label_pop();
    deltaprof_label_pop();
    deltaprof_label_pop();
    assert_string_equal((now(), pairs[0].value), "/x");
    deltaprof_label_pop();
    assert_int_equal(now(), 0);
}

static void long_texts_are_cut_between_characters(void **state)
{
    char value[200];
    memset(value, 'v', sizeof value);
    strcpy(value + 127, "\xC3\xA4rest"); /* two bytes, of which one would fit */
    deltaprof_label_push("key", value);
    assert_int_equal(now(), 1);
    assert_int_equal(strlen(pairs[0].value), 127);
    deltaprof_label_pop();
}

static void *in_a_thread(void *set)
{
    assert_int_equal(now(), 0);
    assert_int_equal(deltaprof_labels_swap((uint32_t)(uintptr_t)set), 0);
    assert_string_equal((now(), pairs[0].value), "/task");
    return NULL;
}

static void a_set_moves_to_another_thread(void **state)
{
    pthread_t thread;
    deltaprof_label_push("endpoint", "/task");
    uint32_t set = deltaprof_labels_swap(0);
    assert_int_equal(now(), 0);
    assert_int_equal(pthread_create(&thread, NULL, in_a_thread, (void *)(uintptr_t)set), 0);
    pthread_join(thread, NULL);
    assert_int_equal(deltaprof_labels_swap(set), 0);
    assert_int_equal(now(), 1);
    assert_int_equal(deltaprof_labels_swap(4000000000u), set); /* no such set: none */
    assert_int_equal(now(), 0);
}

static void a_thread_s_name_is_a_label_while_the_key_is_on(void **state)
{
    assert_int_equal(pthread_setname_np(pthread_self(), "first"), 0);
    dp_labels_add(true, false);
    deltaprof_label_push("endpoint", "/x");
    assert_int_equal(now(), 2);
    assert_string_equal(pairs[0].key, "thread");
    assert_string_equal(pairs[0].value, "first");
    assert_string_equal(pairs[1].value, "/x");
    assert_int_equal(pthread_setname_np(pthread_self(), "fifteen letters"), 0);
    assert_string_equal((now(), pairs[0].value), "fifteen letters");
    deltaprof_label_pop();
    assert_int_equal(now(), 1);
    dp_labels_add(false, false);
    assert_int_equal(now(), 0);
}

enum { PUSHERS = 4, NEW_PAIRS = 500 };

static pthread_barrier_t all_push;
static uint32_t pushed[PUSHERS][NEW_PAIRS];

static void *push_all(void *at)
{
    uint32_t *to = at;
    char value[16];
    for (int i = 0; i < NEW_PAIRS; i++) {
        snprintf(value, sizeof value, "at once %d", i);
        if (i % 10 == 0)
            pthread_barrier_wait(&all_push);
        deltaprof_label_push("order", value);
        to[i] = deltaprof_labels_swap(0);
    }
    return NULL;
}

static void threads_that_push_a_new_pair_at_once_have_one_set(void **state)
{
    pthread_t threads[PUSHERS];
    pthread_barrier_init(&all_push, NULL, PUSHERS);
    for (int i = 0; i < PUSHERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, push_all, pushed[i]), 0);
    for (int i = 0; i < PUSHERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < NEW_PAIRS; i++) {
        char value[16];
        snprintf(value, sizeof value, "at once %d", i);
        assert_int_equal(dp_labels_get(pushed[0][i] << DP_LABELS_LOCK_BITS, pairs, 8), 1);
        assert_string_equal(pairs[0].value, value);
        for (int k = 1; k < PUSHERS; k++)
            assert_int_equal(pushed[k][i], pushed[0][i]);
    }
}

/* The last one: it fills the table. */
static void too_many_values_become_other(void **state)
{
    char value[16];
    unsigned n_other = 0;
    for (int i = 0; i < 5000; i++) {
        snprintf(value, sizeof value, "%d", i);
        deltaprof_label_push("request", value);
        assert_int_equal(now(), 1);
        n_other += !strcmp(pairs[0].value, "[other]");
        assert_true(!strcmp(pairs[0].value, value) || !strcmp(pairs[0].value, "[other]"));
        deltaprof_label_pop();
        assert_int_equal(now(), 0);
    }
    assert_in_range(n_other, 5000 - DP_LABEL_SETS, 4999);
    deltaprof_label_push("request", "0"); /* is kept: it came first */
    assert_string_equal((now(), pairs[0].value), "0");
    deltaprof_label_pop();
    for (int i = 0; i < 300; i++) { /* nested, until there is no room at all; pops match all the same */
        snprintf(value, sizeof value, "key%d", i);
        deltaprof_label_push(value, "x");
    }
    for (int i = 0; i < 300; i++)
        deltaprof_label_pop();
    assert_int_equal(now(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_nest),
        cmocka_unit_test(the_same_pairs_are_the_same_set),
        cmocka_unit_test(a_runtime_gives_labels_with_a_stack),
        cmocka_unit_test(an_inner_pair_hides_an_outer_one_of_its_key),
        cmocka_unit_test(a_lock_s_kind_stands_beside_them),
        cmocka_unit_test(reserved_keys_give_no_label_and_their_pops_match),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(a_set_moves_to_another_thread),
        cmocka_unit_test(a_thread_s_name_is_a_label_while_the_key_is_on),
        cmocka_unit_test(threads_that_push_a_new_pair_at_once_have_one_set),
        cmocka_unit_test(too_many_values_become_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
