/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "support/scratch.h"
#include "base/glob.h"
#include "base/text.h"
#include "config/config.h"
#include "config/settings.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dp_config conf;
static struct dp_config_error error;

static int setup(void **state)
{
    dp_config_init(&conf);
    memset(&error, 0, sizeof error);
    return 0;
}

/* text is refused, nothing changes, and the line holds every given part. */
static void refused(const char *text, const char *a, const char *b)
{
    struct dp_config before = conf;
    error.line[0] = '\0';
    assert_int_equal(dp_config_parse(&conf, text, &error), -EINVAL);
    assert_memory_equal(&before, &conf, sizeof conf);
    if (!strstr(error.line, a) || (b && !strstr(error.line, b)))
        fail_msg("'%s' gave: %s", text, error.line);
    assert_null(strchr(error.line, '\n'));
}

static void taken(const char *text)
{
    if (dp_config_parse(&conf, text, &error))
        fail_msg("'%s' gave: %s", text, error.line);
}

TEST_WITH(setup, NULL, defaults_are_those_of_the_table)
{
    assert_int_equal(conf.heap_rate, 512 << 10);
    assert_int_equal(conf.interval_ns, 15000000000);
    assert_string_equal(conf.out, "");
    assert_int_equal(conf.keep, 5760);
    assert_int_equal(conf.depth, 128);
    assert_int_equal(conf.memory, 64 << 20);
    assert_int_equal(conf.unwind, DP_UNWIND_AUTO);
    assert_int_equal(conf.symbolize, DP_SYMBOLIZE_FUNCTIONS);
    assert_string_equal(conf.exe, "*");
    assert_false(conf.signals);
    assert_int_equal(conf.signal, 0);
    assert_int_equal(conf.exit_timeout_ns, 2000000000);
    assert_string_equal(conf.log, "stderr");
    assert_int_equal(conf.set, 0);
}

TEST_WITH(setup, NULL, every_key_explains_itself)
{
    size_t n = 0;
    for (const struct dp_config_key *k; (k = dp_config_key(n)); n++) {
        assert_true(*k->key && *k->type && *k->value_default && *k->help);
        assert_null(strchr(k->help, '\n'));
        assert_true(strlen(k->key) <= 15); /* what the closest key is looked for by */
        for (size_t i = 0; i < n; i++)
            assert_string_not_equal(dp_config_key(i)->key, k->key);
        char text[64];
        dp_text_format(text, sizeof text, "%s", k->key);
        refused(text, k->key, k->type);
        dp_text_format(text, sizeof text, "%s=", k->key);
        refused(text, k->key, k->type);
        if (strchr(k->value_default, ' '))
            continue; /* a sentence */
        dp_text_format(text, sizeof text, "%s=%s", k->key, k->value_default);
        struct dp_config before = conf;
        taken(text);
        assert_true(dp_config_given(&conf, k->key));
        before.set = conf.set;
        assert_memory_equal(&before, &conf, sizeof conf);
    }
    assert_true(n >= 13);
}

TEST_WITH(setup, NULL, values_are_merged_key_by_key)
{
    taken("heap_rate=1,interval=2s");
    taken("interval=50ms,out=profiles");
    assert_int_equal(dp_config_parse(&conf, NULL, &error), 0);
    taken(",,depth=7,");
    assert_int_equal(conf.heap_rate, 1);
    assert_int_equal(conf.interval_ns, 50000000);
    assert_string_equal(conf.out, "profiles");
    assert_int_equal(conf.depth, 7);
    assert_true(dp_config_given(&conf, "out"));
    assert_false(dp_config_given(&conf, "keep"));
    assert_false(dp_config_given(&conf, "nonsense"));
}

TEST_WITH(setup, NULL, a_later_pair_wins)
{
    taken("heap_rate=1,heap_rate=2k");
    assert_int_equal(conf.heap_rate, 2048);
}

TEST_WITH(setup, NULL, a_backslash_keeps_a_comma_in_the_value)
{
    taken("out=/a\\,b\\c,keep=3");
    assert_string_equal(conf.out, "/a,b\\c");
    assert_int_equal(conf.keep, 3);
}

TEST_WITH(setup, NULL, sizes_take_powers_of_1024)
{
    static const struct {
        const char *text;
        int64_t n;
    } good[] = {{"0", 0},
                {"1", 1},
                {"512k", 512 << 10},
                {"512K", 512 << 10},
                {"3M", 3 << 20},
                {"2g", INT64_C(2) << 30},
                {"1T", INT64_C(1) << 40}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t n = -1;
        assert_int_equal(dp_text_read_size(good[i].text, &n), 0);
        assert_int_equal(n, good[i].n);
    }
    int64_t n;
    for (const char *const *bad = (const char *const[]){"", "k", "1kb", "-1", "1.5M", " 1", "0x10", "1e3", NULL}; *bad;
         bad++)
        assert_int_equal(dp_text_read_size(*bad, &n), -EINVAL);
    assert_int_equal(dp_text_read_size("9223372036854775808", &n), -ERANGE);
    assert_int_equal(dp_text_read_size("9007199254740992k", &n), -ERANGE);
}

TEST_WITH(setup, NULL, times_need_a_unit)
{
    static const struct {
        const char *text;
        int64_t n;
    } good[] = {{"0", 0},
                {"1ns", 1},
                {"10us", 10000},
                {"50ms", 50000000},
                {"15s", 15000000000},
                {"2m", 120000000000},
                {"24h", 86400000000000}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t n = -1;
        assert_int_equal(dp_text_read_time(good[i].text, &n), 0);
        assert_int_equal(n, good[i].n);
        char text[32];
        dp_text_time(text, sizeof text, n);
        assert_string_equal(text, good[i].text);
    }
    static const struct {
        const char *text;
        int64_t n;
    } fractions[] = {
        {"0.5s", 500000000}, {"1.25m", 75000000000}, {"1.5ns", 1}, {"0.0000000001s", 0}, {"2.0s", 2000000000}};
    int64_t n;
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
        assert_int_equal(dp_text_read_time(fractions[i].text, &n), 0);
        assert_int_equal(n, fractions[i].n);
    }
    assert_int_equal(dp_text_read_time("9223372036.9s", &n), -ERANGE);
    for (const char *const *bad = (const char *const[]){"", "15", "s", "1d", "1S", "-1s", "1 s", "0.5", ".5s", "1.s",
                                                        "1..5s", "1.5.5s", NULL};
         *bad; bad++)
        assert_int_equal(dp_text_read_time(*bad, &n), -EINVAL);
    refused("interval=15", "interval=15", "ms s m h");
}

TEST_WITH(setup, NULL, ranges_are_named_and_held)
{
    refused("heap_rate=-1", "heap_rate=-1", "0 to 2G");
    refused("heap_rate=2T", "heap_rate=2T", "0 to 2G");
    taken("heap_rate=2G");
    refused("depth=0", "depth=0", "1 to 1024");
    refused("depth=1025", "depth=1025", "1 to 1024");
    refused("depth=none", "depth=none", "1 to 1024");
    taken("depth=1024");
    refused("memory=1k", "memory=1k", "4M to 1T");
    refused("interval=1us", "interval=1us", "1ms to");
    refused("interval=8761h", "interval=8761h", "or 0");
    taken("interval=0,interval=1ms");
    refused("keep=many", "keep=many", "0 to 1000000000");
    refused("exit_timeout=2h", "exit_timeout=2h", "0 to 1h");
}

/* The text KEY=VALUE in static memory. */
static const char *pair(const char *key, const char *value)
{
    static char text[128];
    snprintf(text, sizeof text, "%s=%s", key, value);
    return text;
}

TEST_WITH(setup, NULL, ranges_hold_to_the_last_value)
{
    static const struct {
        const char *key, *below, *lowest, *highest, *above;
    } ranges[] = {
        {"heap_rate", "-1", "0", "2147483648", "2147483649"},
        {"mutex_rate", "-1", "0", "1000000000", "1000000001"},
        {"block_rate", "-1ns", "0", "1h", "3600000000001ns"},
        {"cpu_rate", "99999ns", "100us", "60s", "60000000001ns"},
        {"interval", "999999ns", "1ms", "8760h", "31536000000000001ns"},
        {"keep", "-1", "0", "1000000000", "1000000001"},
        {"cursor_ttl", "999999999ns", "1s", "8760h", "31536000000000001ns"},
        {"depth", "0", "1", "1024", "1025"},
        {"memory", "4194303", "4M", "1T", "1099511627777"},
        {"max_samples", "-1", "0", "1000000000", "1000000001"},
        {"stuck", "999999ns", "1ms", "8760h", "31536000000000001ns"},
        {"exit_timeout", "-1ns", "0", "1h", "3600000000001ns"},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        refused(pair(ranges[i].key, ranges[i].below), ranges[i].key, NULL);
        refused(pair(ranges[i].key, ranges[i].above), ranges[i].key, NULL);
        taken(pair(ranges[i].key, ranges[i].lowest));
        taken(pair(ranges[i].key, ranges[i].highest));
    }
    taken("cpu_rate=0,interval=0,stuck=0");
    assert_int_equal(conf.cpu_rate_ns, 0);
    assert_int_equal(conf.interval_ns, 0);
    assert_int_equal(conf.stuck_ns, 0);
}

TEST_WITH(setup, NULL, receivers_are_protocol_host_and_port)
{
    static const char *const right[] = {"pyroscope+http://h:1", "parca+https://h", "otlp+http://[::1]:4318/v1",
                                        "pprof+https://h:65535/a-b"};
    static const char *const wrong[] = {"http://h",         "otlp+ftp://h",     "otlp+http:/h",
                                        "otlp+http://",     "otlp+httpss://h",  "otlp+http://h:0",
                                        "otlp+http://h/ x", "otlp+http://h/?q", "otlp+http://h/#f",
                                        "otlp+http://u@h/", "pprof+http",       "otlp+http://h/\x7f"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        taken(pair("push", right[i]));
        assert_string_equal(conf.push, right[i]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refused(pair("push", wrong[i]), "pyroscope+http://HOST:PORT", NULL);
    taken("push=none");
    assert_string_equal(conf.push, "");
}

TEST_WITH(setup, NULL, none_switches_off)
{
    taken("heap_rate=none,interval=none,out=none,symbolize=none,signals=none,signal=none,exit_timeout=none,log=none,"
          "keep=none");
    assert_int_equal(conf.heap_rate, 0);
    assert_int_equal(conf.interval_ns, 0);
    assert_string_equal(conf.out, "");
    assert_int_equal(conf.symbolize, DP_SYMBOLIZE_NONE);
    assert_false(conf.signals);
    assert_int_equal(conf.signal, 0);
    assert_int_equal(conf.exit_timeout_ns, 0);
    assert_string_equal(conf.log, "none");
    assert_int_equal(conf.keep, 0);
}

TEST_WITH(setup, NULL, choices_list_their_words)
{
    taken("unwind=libunwind,symbolize=lines,signals=on");
    assert_int_equal(conf.unwind, DP_UNWIND_LIBUNWIND);
    assert_int_equal(conf.symbolize, DP_SYMBOLIZE_LINES);
    assert_true(conf.signals);
    taken("unwind=fp,signals=off");
    assert_int_equal(conf.unwind, DP_UNWIND_FP);
    assert_false(conf.signals);
    refused("unwind=dwarf", "unwind=dwarf", "auto|fp|libunwind");
    refused("unwind=f", "unwind=f", "auto|fp|libunwind");
    refused("signals=yes", "signals=yes", "on|off");
}

TEST_WITH(setup, NULL, a_signal_is_named_as_kill_names_it)
{
    taken("signal=USR2");
    assert_int_equal(conf.signal, SIGUSR2);
    taken("signal=sigusr1");
    assert_int_equal(conf.signal, SIGUSR1);
    taken("signal=RTMIN+3");
    assert_int_equal(conf.signal, SIGRTMIN + 3);
    refused("signal=KILL", "signal=KILL", "USR1");
    refused("signal=12", "signal=12", "USR2");
    refused("signal=RTMIN+99", "RTMIN+99", "RTMIN+N");
}

TEST_WITH(setup, NULL, a_bare_word_is_taken_for_a_directory)
{
    refused("profiles", "profiles", "did you mean out=profiles?");
    refused("heap_rate=1,profiles", "profiles", "did you mean out=profiles?");
}

TEST_WITH(setup, NULL, an_unknown_key_is_answered_with_the_closest)
{
    refused("heaprate=1", "heaprate", "did you mean heap_rate=?");
    refused("intervall=1s", "intervall", "did you mean interval=?");
    refused(" out=x", " out", "did you mean out=?");
    refused("zzzzzzzzzzzz=1", "zzzzzzzzzzzz", "heap_rate mutex_rate block_rate cpu_rate tables wall_rate interval out");
}

TEST_WITH(setup, NULL, a_log_file_needs_a_slash)
{
    taken("log=info");
    taken("log=./x");
    refused("log=stdrr", "log=stdrr", "stderr, none, info");
}

TEST_WITH(setup, NULL, an_out_directory_knows_its_percents)
{
    taken("out=/tmp/%e.%p@%h%%");
    refused("out=/tmp/%x", "out=/tmp/%x", "e (program)");
    refused("out=/tmp/%", "out=/tmp/%", "another %");
    refused("out=%%%", "out=%%%", "another %");
}

TEST_WITH(setup, NULL, a_value_may_be_1023_bytes)
{
    char text[4200] = "out=";
    memset(text + 4, 'x', DP_CONFIG_TEXT - 1);
    taken(text);
    assert_int_equal(strlen(conf.out), DP_CONFIG_TEXT - 1);
    memset(text + 4, 'y', DP_CONFIG_TEXT);
    refused(text, "out", "longer than 1023");
    memset(text + 4, 'y', 4000);
    refused(text, "out", "longer than 1023");
    memset(text, 'k', 4000);
    refused(text, "kkkk", NULL);
}

TEST_WITH(setup, NULL, only_some_keys_change_while_it_runs)
{
    assert_int_equal(dp_config_parse_live(&conf, "heap_rate=1,interval=1s,symbolize=none", &error), 0);
    assert_int_equal(conf.heap_rate, 1);
    assert_int_equal(dp_config_parse_live(&conf, "heap_rate=2,out=x", &error), -EINVAL);
    assert_non_null(strstr(error.line, "out"));
    assert_int_equal(conf.heap_rate, 1);
    assert_int_equal(dp_config_parse_delta(&conf, "symbolize=lines", &error), 0);
    assert_int_equal(dp_config_parse_delta(&conf, "heap_rate=1", &error), -EINVAL);
    assert_non_null(strstr(error.line, "heap_rate"));
}

TEST_WITH(setup, NULL, globs_match_whole_names)
{
    assert_true(dp_glob_matches("*", "anything"));
    assert_true(dp_glob_matches("redis-server", "redis-server"));
    assert_false(dp_glob_matches("redis", "redis-server"));
    assert_true(dp_glob_matches("a|b*", "bash"));
    assert_true(dp_glob_matches("a|b*", "a"));
    assert_false(dp_glob_matches("a|b*", "ab"));
    assert_true(dp_glob_matches("py*3.?1", "python3.11"));
    assert_true(dp_glob_matches("*a*b", "xxaxaxbxb"));
    assert_false(dp_glob_matches("*a*b", "xxaxaxbx"));
    assert_false(dp_glob_matches("", "x"));
    assert_true(dp_glob_matches("x|", ""));
}

TEST_WITH(setup, NULL, the_environment_overrides_the_host_key_by_key)
{
    setenv("DELTAPROF_CONF", "heap_rate=1,out=/b", 1);
    assert_int_equal(dp_config_settings_make(&conf, "heap_rate=2,keep=9,out=/a", false), 0);
    assert_int_equal(conf.heap_rate, 1);
    assert_int_equal(conf.keep, 9);
    assert_string_equal(conf.out, "/b");
    setenv("DELTAPROF_CONF", "heap_rate=x", 1);
    assert_int_equal(dp_config_settings_make(&conf, NULL, false), -EINVAL);
    setenv("DELTAPROF_CONF", "exe=another", 1);
    assert_int_equal(dp_config_settings_make(&conf, NULL, false), 1);
    setenv("DELTAPROF_CONF", "exe=x|test_con*", 1);
    assert_int_equal(dp_config_settings_make(&conf, NULL, false), 0);
    unsetenv("DELTAPROF_CONF");
}

TEST_WITH(setup, NULL, a_preload_writes_where_it_was_started)
{
    char here[64], want[sizeof here + 8];
    assert_int_equal(scratch_directory(here, sizeof here, "100% mine"), 0);
    assert_int_equal(chdir(here), 0);
    const char *percent = strchr(here, '%');
    dp_text_format(want, sizeof want, "%s", here);
    dp_text_format(want + (percent - here), sizeof want - (size_t)(percent - here), "%%%s", percent);
    assert_int_equal(dp_config_settings_make(&conf, NULL, true), 0);
    assert_string_equal(conf.out, want); /* its own % is no expansion */
    assert_true(conf.signals);
    assert_int_equal(dp_config_settings_make(&conf, "out=x/%e,log=./l,signals=off", true), 0);
    assert_memory_equal(conf.out, want, strlen(want));
    assert_string_equal(conf.out + strlen(want), "/x/%e");
    assert_memory_equal(conf.log, here, strlen(here));
    assert_false(conf.signals);
    assert_int_equal(dp_config_settings_make(&conf, NULL, false), 0);
    assert_string_equal(conf.out, "");
    assert_int_equal(rmdir(here), 0); /* and there is no working directory any more */
    assert_int_equal(dp_config_settings_make(&conf, "out=x", false), -ENOENT);
    assert_int_equal(dp_config_settings_make(&conf, "out=/x", false), 0);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(dp_config_settings_make(&conf, NULL, true), 0);
    assert_string_equal(conf.out, "/");
    static struct dp_config copy; /* a process that is turned on later has a copy */
    dp_config_copy(&copy, &conf);
    assert_true(*conf.tables == '/');
    assert_string_equal(copy.tables, conf.tables);
}

/* As by a command, for a process that runs. */
TEST_WITH(setup, NULL, a_running_process_takes_keys_as_a_whole_or_not)
{
    static const char paths[] = "out, events, log and token need absolute paths here";
    static const struct {
        const char *text, *line; /* NULL: they are taken */
    } rows[] = {
        {"heap_rate=2k,out=/a", NULL},
        {"heap_rate=2k,out=a", paths},
        {"heap_rate=2k,log=a/b", paths},
        {"heap_rate=2k,log=/a/b", NULL},
        {"heap_rate=2k,out=/a,events=a/b", paths},
        {"heap_rate=2k,out=/a,events=/a/b", NULL},
        {"heap_rate=2k,token=a/b", paths},
        {"heap_rate=2k,token=/a/b", NULL},
        {"heap_rate=2k,events=/a/b", "events: needs out=DIR, where profiles are written"},
        {"heap_rate=2k,lock_names=/no/such", "lock_names=/no/such: ENOENT"},
        {"heap_rate=2k,depth=0", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setup(NULL);
        conf.has_users_tables = true;
        int err = dp_config_settings_amend(&conf, rows[i].text, &error);
        assert_int_equal(err < 0, rows[i].line != NULL);
        assert_int_equal(conf.heap_rate == 2048, err == 0);
        assert_true(conf.has_users_tables);
        if (rows[i].line && *rows[i].line)
            assert_string_equal(error.line, rows[i].line);
    }
    assert_int_equal(dp_config_settings_amend(&conf, "tables=/t", &error), 0);
    assert_false(conf.has_users_tables);
}

TEST_WITH(setup, NULL, lines_are_formatted_and_cut)
{
    char out[16];
    assert_int_equal(dp_text_format(out, sizeof out, "%s.%d.%04u.%x", "a", -5, 7u, 255u), 12);
    assert_string_equal(out, "a.-5.0007.ff");
    dp_text_format(out, sizeof out, "%lld%%", (long long)INT64_MIN);
    assert_string_equal(out, "-92233720368547");
    dp_text_format(out, sizeof out, "%05u %zu", 123456u, (size_t)1);
    assert_string_equal(out, "123456 1");
    errno = ENOSPC;
    dp_text_format(out, sizeof out, "%m");
    assert_string_equal(out, "ENOSPC");
    dp_text_size(out, sizeof out, 1536);
    assert_string_equal(out, "1536");
    dp_text_size(out, sizeof out, 64 << 20);
    assert_string_equal(out, "64M");
}

UNIT(NULL, NULL)
