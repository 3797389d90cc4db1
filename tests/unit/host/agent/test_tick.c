/* SPDX-License-Identifier: MIT */
/* A tick whose bytes are all written, and whose file then gets no name: its time comes again with the next one. */
#include "support/unit.h"
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "support/scratch.h"
#include "base/clock.h"
#include "base/log.h"
#include "support/consumers.h"
#include "host/agent/tick.h"

static int refuses; /* what the directory answers, which takes files but no names; 0: takes both */

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (refuses) {
        errno = refuses;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static char top[64];

static int starts(void **state)
{
    struct dp_config conf;
    if (scratch_directory(top, sizeof top, "tick"))
        return -1;
    dp_config_init(&conf);
    conf.symbolize = DP_SYMBOLIZE_NONE;
    snprintf(conf.out, sizeof conf.out, "%s", top);
    int err = dp_record_init(&conf) || dp_report_init(&conf);
    dp_agent_tick_init(&conf);
    return err;
}

static int ends(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command);
}

static void keep_line(void *ctx, const char *line)
{
    snprintf(ctx, 512, "%s", line);
}

/* The sums of the one profile that lies in the directory now, which goes. */
static void read_the_file(void)
{
    char command[160], bytes[1 << 16];
    snprintf(command, sizeof command, "cat '%s'/*.heap.pb.gz && rm '%s'/*", top, top);
    FILE *f = popen(command, "r");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_int_equal(pclose(f), 0);
    assert_int_equal(take(&taken, bytes, n), 0);
    read_taken(&taken, &said);
}

TEST(what_got_no_name_comes_with_the_next_tick)
{
    char line[512] = "";
    dp_log_to(keep_line, line);
    allocate(1, 3);
    assert_int_equal(dp_agent_tick(INT64_MAX), 0);
    read_the_file();
    assert_int_equal(said.sums[0], 3);
    allocate(1, 5);
    for (int i = 0; i < 3; i++) {
        refuses = EDQUOT;
        assert_int_equal(dp_agent_tick(INT64_MAX), -EDQUOT);
        assert_non_null(strstr(line, "EDQUOT"));
    }
    assert_int_equal(dp_agent_tick_files(), 1);
    refuses = 0;
    allocate(2, 1);
    assert_int_equal(dp_agent_tick(INT64_MAX), 0);
    read_the_file();
    assert_int_equal(said.sums[0], 6);
    values_are(1, 5, 8);
    values_are(2, 1, 1);
    dp_log_to(NULL, NULL);
}

UNIT(starts, ends)
