/* SPDX-License-Identifier: MIT */
#include "host/table/labels.h"

#include <deltaprof/deltaprof.h>
#include <deltaprof/hooks.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support/unit.h"

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

TEST(pairs_nest)
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

TEST(the_same_pairs_are_the_same_set)
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

TEST(a_runtime_gives_labels_with_a_stack)
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

TEST(an_inner_pair_hides_an_outer_one_of_its_key)
{
    deltaprof_label_push("endpoint", "/x");
    deltaprof_label_push("endpoint", "/y");
    assert_int_equal(now(), 1);
    assert_string_equal(pairs[0].value, "/y");
    deltaprof_label_pop();
    assert_string_equal((now(), pairs[0].value), "/x");
    deltaprof_label_pop();
}

TEST(a_lock_s_kind_stands_beside_them)
{
    deltaprof_label_push("endpoint", "/x");
    assert_int_equal(dp_labels_get(labels_now() | dp_labels_of_lock(DELTAPROF_LOCK_COND), pairs, 8), 2);
    assert_string_equal(pairs[0].key, "lock");
    assert_string_equal(pairs[0].value, "cond");
    assert_string_equal(pairs[1].value, "/x");
    deltaprof_label_pop();
}

TEST(reserved_keys_give_no_label_and_their_pops_match)
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

TEST(long_texts_are_cut_between_characters)
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

TEST(a_set_moves_to_another_thread)
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

TEST(a_thread_s_name_is_a_label_while_the_key_is_on)
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

TEST(threads_that_push_a_new_pair_at_once_have_one_set)
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
TEST(too_many_values_become_other)
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

UNIT(NULL, NULL)
