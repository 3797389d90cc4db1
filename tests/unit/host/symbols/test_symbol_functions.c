/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

#include "pprof/strings.h"
#include "host/symbols/name_set.h"
#include "host/symbols/symbol_functions.h"

enum { MANY = 5000 };

static struct dp_symbols_names names;

static const char *kept(const char *text)
{
    const char *copy = dp_symbols_names_keep(&names, text, strlen(text));
    assert_non_null(copy);
    return copy;
}

TEST(a_name_is_kept_once_with_its_length_and_hash)
{
    const char *once = kept("net.(*conn).Read"), *again = kept("net.(*conn).Read"),
               *other = kept("net.(*conn).Rea\xff");
    assert_ptr_equal(once, again);
    assert_ptr_not_equal(once, other);
    assert_string_equal(once, "net.(*conn).Read");
    assert_int_equal(dp_symbols_name_of(once)->n_bytes, 16);
    assert_int_equal(dp_symbols_name_of(once)->hash, dp_strings_hash("net.(*conn).Read", 16));
    assert_true(dp_symbols_name_of(once)->is_utf8);
    assert_false(dp_symbols_name_of(other)->is_utf8);
}

static struct dp_symbols_function numbered(unsigned i)
{
    char name[32];
    snprintf(name, sizeof name, "function%u", i / 2);
    struct dp_symbols_function f = {.name = kept(name), .start_line = i % 2};
    f.system_name = f.name;
    return f;
}

TEST(functions_differ_by_any_value_and_keep_their_numbers)
{
    static const struct dp_symbols_function *all[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        struct dp_symbols_function f = numbered(i);
        all[i] = dp_symbols_functions_keep(&f);
        assert_non_null(all[i]);
    }
    for (unsigned i = 0; i < MANY; i++) {
        struct dp_symbols_function f = numbered(i);
        assert_ptr_equal(dp_symbols_functions_keep(&f), all[i]);
        assert_ptr_equal(dp_symbols_function(all[i]->number), all[i]);
        assert_int_equal(all[i]->number, all[0]->number + i);
        assert_ptr_equal(all[i]->name, f.name);
        f.file = kept("conn.go");
        if (i % 1000 == 0)
            assert_ptr_not_equal(dp_symbols_functions_keep(&f), all[i]);
    }
}

TEST(in_a_child_old_numbers_stay_and_new_ones_follow)
{
    struct dp_symbols_function f = numbered(0), g = numbered(1);
    const struct dp_symbols_function *before = dp_symbols_functions_keep(&f);
    uint32_t number = before->number;
    dp_symbols_functions_abandon();
    f.name = f.system_name = kept("of the child");
    const struct dp_symbols_function *after = dp_symbols_functions_keep(&f);
    assert_ptr_equal(dp_symbols_function(number), before);
    assert_ptr_equal(before->name, g.name);
    assert_true(after->number > number);
    assert_ptr_equal(dp_symbols_functions_keep(&f), after);
}

UNIT(NULL, NULL)
