/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool/run/beside.h"

static char dir[DP_CONFIG_TEXT], why[256];

/* Whether `out` stands for one directory, which is in `dir` then. The pusher may be missing here. */
static bool is_one_directory(const char *out)
{
    struct dp_config conf;
    dp_config_init(&conf);
    snprintf(conf.out, sizeof conf.out, "%s", out);
    snprintf(conf.push, sizeof conf.push, "%s", "otlp+http://x");
    memset(dir, 'x', sizeof dir);
    return !dp_run_beside_check(&conf, dir, why, sizeof why) || !strstr(why, "out=DIR");
}

TEST(a_directory_is_taken_as_it_stands)
{
    assert_true(is_one_directory("/a/b"));
    assert_string_equal(dir, "/a/b");
}

TEST(host_and_percent_are_expanded)
{
    char host[256] = "", expected[600];
    gethostname(host, sizeof host - 1);
    snprintf(expected, sizeof expected, "/a/%s/%%h%s.b", host, host);
    assert_true(is_one_directory("/a/%h/%%h%h.b"));
    assert_string_equal(dir, expected);
}

TEST(program_and_process_stand_for_many_directories)
{
    assert_false(is_one_directory("/a/%p"));
    assert_false(is_one_directory("/a/%e/b"));
    assert_false(is_one_directory("/a%"));
    assert_false(is_one_directory(""));
    assert_string_equal(why, "push=otlp+http://x: needs out=DIR, whose files are sent");
}

/* A host's name has up to 255 bytes, and one must always fit. */
TEST(a_directory_that_is_too_long_is_refused)
{
    char out[DP_CONFIG_TEXT];
    memset(out, 'a', sizeof out);
    out[DP_CONFIG_TEXT - 256] = 0;
    assert_true(is_one_directory(out));
    assert_string_equal(dir, out);
    out[DP_CONFIG_TEXT - 256] = 'a';
    out[DP_CONFIG_TEXT - 255] = 0;
    assert_false(is_one_directory(out));
}

UNIT(NULL, NULL)
