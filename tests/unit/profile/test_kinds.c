/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <deltaprof/deltaprof.h>
#include <string.h>

#include "profile/kinds.h"

_Static_assert((int)DP_KIND_HEAP == DELTAPROF_HEAP && (int)DP_KIND_MUTEX == DELTAPROF_MUTEX &&
                   (int)DP_KIND_BLOCK == DELTAPROF_BLOCK && (int)DP_KIND_CPU == DELTAPROF_CPU &&
                   (int)DP_KIND_CHAIN == DELTAPROF_CHAIN,
               "kinds of the public interface have its values");

TEST(every_row_is_complete)
{
    for (unsigned kind = 0; kind < DP_KINDS; kind++) {
        const struct dp_kind *k = &dp_kind_table[kind];
        assert_non_null(k->name);
        assert_non_null(k->receivers_name);
        assert_int_equal(dp_kind_named(k->name, strlen(k->name)), kind);
        assert_int_equal(k->table_share != 0, kind < DP_KIND_TABLES);
        assert_true(k->n_values && k->n_values <= k->n_types && k->n_types <= DP_KIND_TYPES_MAX);
        assert_true(kind >= DP_KIND_DELTAS || k->n_values <= DP_KIND_VALUES_MAX);
        for (unsigned i = 0; i < k->n_types; i++)
            assert_true(k->types[i].name && k->types[i].unit);
        for (unsigned other = 0; other < kind; other++) {
            assert_string_not_equal(dp_kind_table[other].name, k->name);
            assert_int_not_equal(dp_kind_table[other].rank, k->rank);
        }
        /* flows come first, so that the key `types` selects one half */
        for (unsigned i = 1; i < k->n_values; i++)
            assert_true(k->types[i].nature >= k->types[i - 1].nature);
    }
    assert_int_equal(dp_kind_named("heaps", 5), DP_KINDS);
    assert_int_equal(dp_kind_named("", 0), DP_KINDS);
}

TEST(every_kind_with_deltas_has_its_endpoints)
{
    const struct dp_kind_endpoint *endpoint;
    unsigned n[DP_KINDS] = {0}, kind, found;
    bool was_delta = true;
    for (size_t i = 0; (endpoint = dp_kind_endpoint_at(i, &kind)); i++) {
        assert_ptr_equal(dp_kind_endpoint_named(endpoint->name, strlen(endpoint->name), &found), endpoint);
        assert_int_equal(found, kind);
        assert_true(was_delta || !endpoint->is_delta);
        was_delta = endpoint->is_delta;
        assert_true(!endpoint->default_type || dp_kind_has_type(kind, endpoint->default_type));
        n[kind]++;
    }
    for (kind = 0; kind < DP_KINDS; kind++)
        assert_int_equal(n[kind] != 0, kind < DP_KIND_DELTAS);
    assert_null(dp_kind_endpoint_named("threadcreate", 12, &kind));
    assert_null(dp_kind_endpoint_named("hea", 3, &kind));
}

TEST(sample_types_are_flows_or_levels)
{
    static const char *const flows[] = {"alloc_objects", "alloc_space", "contentions",
                                        "delay",         "mutex_delay", "alloc_x"};
    static const char *const levels[] = {"inuse_objects", "inuse_space", "inuse_other"};
    static const char *const neither[] = {"cpu_of_others", "", "allocs"};
    for (size_t i = 0; i < sizeof flows / sizeof *flows; i++)
        assert_true(dp_kind_type_is_flow(flows[i]) && !dp_kind_type_is_level(flows[i]));
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        assert_true(dp_kind_type_is_level(levels[i]) && !dp_kind_type_is_flow(levels[i]));
    for (size_t i = 0; i < sizeof neither / sizeof *neither; i++)
        assert_false(dp_kind_type_is_level(neither[i]) || dp_kind_type_is_flow(neither[i]));
    assert_true(dp_kind_has_levels(DP_KIND_HEAP));
    assert_false(dp_kind_has_levels(DP_KIND_BLOCK));
}

TEST(a_sample_type_tells_the_kind)
{
    assert_int_equal(dp_kind_by_type("inuse_space"), DP_KIND_HEAP);
    assert_int_equal(dp_kind_by_type("delay"), DP_KIND_BLOCK);  /* and not mutex, whose rank is higher */
    assert_int_equal(dp_kind_by_type("mutex_delay"), DP_KINDS); /* of events only */
}

TEST(events_have_a_column_for_each_value)
{
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        for (unsigned i = 0; i < 2; i++) {
            enum dp_kind_event event = dp_kind_table[kind].types[i].event;
            assert_true(event == DP_KIND_EVENT_NONE || dp_kind_table[DP_KIND_EVENTS].types[event].event == event);
        }
    assert_string_equal(dp_kind_table[DP_KIND_EVENTS].types[DP_KIND_EVENT_MUTEX_DELAY].name, "mutex_delay");
    assert_int_equal(dp_kind_table[DP_KIND_MUTEX].types[1].event, DP_KIND_EVENT_MUTEX_DELAY);
}

UNIT(NULL, NULL)
