/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

#include "host/objects/functions.h"
#include "host/shared/shared.h"

static struct deltaprof_function function(const char *name, const char *file, uint32_t line)
{
    return (struct deltaprof_function){
        .name = name, .n_name = strlen(name), .file = file, .n_file = file ? strlen(file) : 0, .first_line = line};
}

static uint32_t find(const char *name, const char *file, uint32_t line)
{
    struct deltaprof_function f = function(name, file, line);
    return deltaprof_function_find(&f);
}

static int start(void **state)
{
    assert_int_equal(find("early", "a.py", 1), 0); /* there is no table yet */
    return dp_functions_init(64 << 10);
}

TEST(a_function_is_its_name_file_and_line)
{
    uint32_t id = find("run", "a.py", 3);
    assert_int_not_equal(id, 0);
    assert_int_equal(find("run", "a.py", 3), id);
    assert_int_not_equal(find("run2", "a.py", 3), id);
    assert_int_not_equal(find("run", "b.py", 3), id);
    assert_int_not_equal(find("run", "a.py", 4), id);
    assert_int_not_equal(find("run", NULL, 3), id);
    struct dp_function row = dp_function_get(id);
    assert_string_equal(row.name, "run");
    assert_string_equal(row.file, "a.py");
    assert_int_equal(row.first_line, 3);
    struct deltaprof_function same = function("run", "a.py", 3), other = function("run", "a.py", 2);
    assert_true(deltaprof_function_is(id, &same));
    assert_false(deltaprof_function_is(id, &other));
    assert_false(deltaprof_function_is(0, &same));
    assert_string_equal(dp_function_get(0).name, "");
    assert_string_equal(dp_function_get(1 << 30).name, "");
}

/* "\xc3\xa9" is one character: a name of 256 bytes that ends with it loses both bytes. */
TEST(long_texts_are_cut_between_characters)
{
    char name[DP_FUNCTION_NAME_MAX + 2], file[DP_FUNCTION_FILE_MAX + 3];
    memset(name, 'n', sizeof name);
    memcpy(name + DP_FUNCTION_NAME_MAX - 1, "\xc3\xa9", 3);
    memset(file, 'f', sizeof file);
    memcpy(file, "\xc3\xa9", 2);
    file[sizeof file - 1] = '\0';
    struct dp_function row = dp_function_get(find(name, file + 1, 1));
    assert_int_equal(strlen(row.name), DP_FUNCTION_NAME_MAX - 1);
    assert_int_equal(strlen(row.file), DP_FUNCTION_FILE_MAX); /* the end of the path stays */
    row = dp_function_get(find(name, file, 2));
    assert_int_equal(strlen(row.file), DP_FUNCTION_FILE_MAX);
    assert_int_equal(row.file[0], 'f');
    name[DP_FUNCTION_NAME_MAX - 1] = 'n';
    name[DP_FUNCTION_NAME_MAX] = '\0';
    row = dp_function_get(find(name, "a.py", 1));
    assert_int_equal(strlen(row.name), DP_FUNCTION_NAME_MAX);
}

/* A file of the tables gets the rows up to the count that the array refers to. */
TEST(a_published_row_is_among_those_that_another_process_gets)
{
    struct dp_shared_array *shared = dp_shared_array(DP_ARRAY_FUNCTIONS);
    uint32_t id = find("published", "c.py", 7), n;
    dp_function_publish(id);
    assert_non_null(shared->used);
    n = dp_load_relaxed(shared->used);
    assert_true(n > id);
    assert_non_null(memmem(shared->at + (size_t)id * 8, (n - id) * 8, "published\0c.py", 15));
    assert_true(dp_function_is_valid(id));
    assert_false(dp_function_is_valid(n));
    assert_false(dp_function_is_valid(0));
    assert_true(dp_functions_adopt(n));
    assert_string_equal(dp_function_get(id).name, "published");
    assert_false(dp_function_is_valid(n));
    assert_false(dp_functions_adopt(1 << 30));
}

TEST(a_full_table_knows_what_it_has)
{
    uint32_t first = find("first", "d.py", 1), n = 0;
    for (char name[32]; n < 1 << 16; n++) {
        snprintf(name, sizeof name, "function %u", n);
        if (!find(name, "d.py", 1))
            break;
    }
    assert_in_range(n, 500, 64 << 10);
    assert_int_equal(find("first", "d.py", 1), first);
}

UNIT(start, NULL)
