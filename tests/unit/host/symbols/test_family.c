/* SPDX-License-Identifier: MIT */
/* Names that are shared over fork: what one process entered, all others of its family find, and nothing else. */
#include "support/unit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/symbols/family.h"

static _Alignas(8) char text[DP_FAMILY_ENTRY_BYTES];
static struct dp_symbol_line found[64];

static struct dp_symbols_family_key key_of(uint64_t place)
{
    struct dp_symbols_family_key key = {.place = place, .n_build_id = 20};
    memset(key.build_id, 7, 20);
    return key;
}

static int find(uint64_t place)
{
    struct dp_symbols_family_key key = key_of(place);
    return dp_symbols_family_find(&key, found, 64, text);
}

static void put(uint64_t place, const char *name, const char *file)
{
    struct dp_symbols_family_key key = key_of(place);
    struct dp_symbol_line lines[] = {{.name = name, .system_name = "_Z", .file = file, .line = 3, .start_line = 2},
                                     {.name = "outer"}};
    dp_symbols_family_put(&key, lines, 2);
}

static int setup(void **state)
{
    dp_mem_cap((size_t)64 << 20);
    put(1, "too early", NULL); /* there is no shared memory yet */
    if (find(1) != -ENOENT)
        return -1;
    dp_symbols_family_fork_prepare();
    return 0;
}

TEST(what_one_process_entered_another_finds)
{
    pid_t pid = fork();
    if (!pid) {
        put(100, "f", "f.c");
        struct dp_symbols_family_key key = key_of(101);
        dp_symbols_family_put(&key, NULL, 0); /* known to have no name */
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(find(100), 2);
    assert_string_equal(found[0].name, "f");
    assert_string_equal(found[0].system_name, "_Z");
    assert_string_equal(found[0].file, "f.c");
    assert_int_equal(found[0].line, 3);
    assert_int_equal(found[0].start_line, 2);
    assert_string_equal(found[1].name, "outer");
    assert_null(found[1].file);
    assert_int_equal(find(101), 0);
}

TEST(a_place_is_one_of_a_file_and_a_source)
{
    put(200, "f", NULL);
    struct dp_symbols_family_key key = key_of(200);
    key.build_id[19] = 8;
    assert_int_equal(dp_symbols_family_find(&key, found, 64, text), -ENOENT);
    key = key_of(200);
    key.source = 1;
    assert_int_equal(dp_symbols_family_find(&key, found, 64, text), -ENOENT);
    assert_int_equal(find(201), -ENOENT);
    assert_int_equal(find(200), 2);
}

TEST(names_that_do_not_fit_are_not_shared)
{
    static char name[DP_FAMILY_ENTRY_BYTES];
    memset(name, 'x', sizeof name - 1);
    put(300, name, NULL);
    assert_int_equal(find(300), -ENOENT);
    name[sizeof name - 400] = '\0';
    put(300, name, NULL);
    assert_int_equal(find(300), 2);
    assert_string_equal(found[0].name, name);
}

TEST(a_full_table_still_answers)
{
    put(400, "first", NULL);
    for (uint64_t i = 0; i < 20000; i++)
        put(1000 + i, "a function of a usual length of name", "a file of a usual length of name.c");
    put(400001, "last", NULL);
    assert_int_equal(find(400001), -ENOENT);
    assert_int_equal(find(400), 2);
    assert_string_equal(found[0].name, "first");
    int n = 0;
    for (uint64_t i = 0; i < 20000; i++)
        n += find(1000 + i) == 2 && strcmp(found[0].name, "a function of a usual length of name") == 0;
    assert_true(n > 1000);
}

UNIT(setup, NULL)
