/* SPDX-License-Identifier: MIT */
/* How recording divides its memory. A process records once, so each setting has a child of its own. */
#include "support/unit.h"
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/api/recording.h"
#include "host/table/table.h"

struct shares {
    int err, err_again;
    size_t records, used_bytes;
};

static struct shares shares_of(const char *text)
{
    struct shares shares = {.err = -1};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        struct dp_config conf;
        struct dp_config_error error;
        dp_config_init(&conf);
        dp_config_parse(&conf, text, &error);
        shares.err = dp_record_init(&conf);
        shares.records = dp_table_most(DP_KIND_HEAP);
        shares.used_bytes = dp_mem_used();
        shares.err_again = dp_record_init(&conf);
        _exit(write(ends[1], &shares, sizeof shares) != sizeof shares);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &shares, sizeof shares), sizeof shares);
    close(ends[0]);
    close(ends[1]);
    return shares;
}

TEST(blocks_get_more_where_each_allocation_is_recorded)
{
    struct shares sampled = shares_of("heap_rate=512k"), all = shares_of("heap_rate=1");
    assert_int_equal(sampled.err | all.err | sampled.err_again | all.err_again, 0);
    assert_true(all.records < sampled.records);
}

TEST(records_get_less_where_ages_are_kept)
{
    struct shares plain = shares_of("heap_rate=512k"), aged = shares_of("heap_rate=512k,age=on");
    assert_int_equal(plain.err | aged.err, 0);
    assert_true(aged.records < plain.records);
    assert_true(aged.used_bytes < plain.used_bytes); /* the rest is for reports, which need it then */
}

TEST(shares_grow_with_the_memory_and_stay_below_it)
{
    static const struct {
        const char *text;
        size_t bytes;
    } budgets[] = {{"memory=8M", 8 << 20}, {"memory=64M", 64 << 20}, {"memory=256M", 256 << 20}};
    size_t records = 0;
    for (size_t i = 0; i < 3; i++) {
        struct shares shares = shares_of(budgets[i].text);
        assert_int_equal(shares.err, 0);
        assert_true(shares.records > records);
        assert_true(shares.used_bytes < budgets[i].bytes);
        records = shares.records;
    }
}

UNIT(NULL, NULL)
