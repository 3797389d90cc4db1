/* SPDX-License-Identifier: MIT */
/* The journal of push: the next pusher finds in the file the state that the last one had in memory. */
#include "support/unit.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tool/push/journal.h"

#define TARGET "http://127.0.0.1:4040/push"
#define SECOND INT64_C(1000000000)

static char dir[64];
static int dir_fd;
static struct dp_push_journal journal;
static size_t used_bytes; /* before the first journal is open */

static int begin_test(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/deltaprof-journal-XXXXXX");
    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    used_bytes = dp_mem_used();
    assert_int_equal(dp_push_journal_open(&journal, dir_fd, TARGET), 0);
    return 0;
}

static int end_test(void **state)
{
    (void)state;
    unlinkat(dir_fd, journal.name, 0);
    dp_push_journal_close(&journal);
    assert_int_equal(dp_mem_used(), used_bytes);
    close(dir_fd);
    return rmdir(dir);
}

static char *key_of(unsigned n)
{
    static char keys[4][DP_PUSH_KEY_BYTES];
    static unsigned turn;
    char name[64], *key = keys[turn++ % 4];
    snprintf(name, sizeof name, "server.7.%04u.heap.pb.gz", n);
    dp_push_journal_key(key, 99, name);
    return key;
}

static void begin_unit(unsigned first, unsigned n)
{
    char keys[8][DP_PUSH_KEY_BYTES];
    const char *pointers[8];
    for (unsigned i = 0; i < n; i++)
        pointers[i] = strcpy(keys[i], key_of(first + i));
    assert_int_equal(dp_push_journal_begin(&journal, pointers, n), 0);
}

static void settle_part(enum dp_push_outcome outcome)
{
    assert_int_equal(dp_push_journal_sending(&journal), 0);
    assert_int_equal(dp_push_journal_part(&journal, outcome), 0);
}

static char *say_unit(char *at, const struct dp_push_unit *u)
{
    at += sprintf(at, "[%d parts %u sent %d doubt %d refused %d", (int)u->n_files, u->part, u->is_sent, u->in_doubt,
                  u->is_refused);
    for (uint32_t i = 1; i <= u->n_files; i++)
        at += sprintf(at, " %s", dp_strings_at(&u->keys, i) + 17);
    return at + sprintf(at, "]");
}

/* The state as text. */
static const char *state_of(const struct dp_push_journal *j)
{
    static char texts[2][1 << 20];
    static int turn;
    char *text = texts[turn++ % 2], *at = text;
    at += sprintf(at, "%s %d %d %d %d seen %llu ", j->target, (int)j->counts[0], (int)j->counts[1], (int)j->counts[2],
                  (int)j->counts[3], dp_push_journal_seen(j, 99));
    at = j->unit.n_files ? say_unit(at, &j->unit) : at;
    for (size_t i = 0; i < j->aside.n; i++) {
        const struct dp_push_aside *a = &j->aside.at[i];
        at += sprintf(at, "\naside %lld %lld %d %s ", (long long)a->unit.aside_ns, (long long)a->tried_ns,
                      (int)a->unit.n_accepted, a->why);
        at = say_unit(at, &a->unit);
    }
    return text;
}

/* Ends this pusher and begins the next one. */
static void reopen(void)
{
    char before[1 << 16];
    snprintf(before, sizeof before, "%s", state_of(&journal));
    dp_push_journal_close(&journal);
    assert_int_equal(dp_push_journal_open(&journal, dir_fd, TARGET), 0);
    assert_string_equal(state_of(&journal), before);
}

TEST_WITH(begin_test, end_test, a_unit_that_is_set_aside_keeps_its_parts)
{
    begin_unit(1, 2);
    settle_part(DP_PUSH_ACCEPTED);
    settle_part(DP_PUSH_DOUBT);
    assert_int_equal(dp_push_journal_sending(&journal), 0);
    assert_int_equal(dp_push_journal_back(&journal), 0);
    assert_int_equal(dp_push_journal_aside(&journal, 1000 * SECOND, "status 500: a\nb"), 0);
    assert_int_equal(journal.unit.n_files, 0);
    reopen();
    assert_true(dp_push_journal_is_aside(&journal, key_of(2)) && !dp_push_journal_is_aside(&journal, key_of(3)));
    assert_true(dp_push_journal_holds(&journal, key_of(2)));
    assert_string_equal(journal.aside.at[0].why, "status 500: a?b");
    assert_int_equal(dp_push_journal_due(&journal, 1009 * SECOND, 10 * SECOND), -1);
    assert_int_equal(dp_push_journal_due(&journal, 1010 * SECOND, 10 * SECOND), 0);
    assert_int_equal(dp_push_journal_due(&journal, 999 * SECOND, 10 * SECOND), 0);
    assert_int_equal(dp_push_journal_again(&journal, 0), 0);
    reopen();
    assert_int_equal(journal.unit.part, 2);
    assert_true(journal.unit.in_doubt && journal.unit.aside_ns == 1000 * SECOND);
    assert_int_equal(dp_push_journal_aside(&journal, 2000 * SECOND, "status 502"), 0);
    reopen();
    assert_true(journal.aside.at[0].tried_ns == 2000 * SECOND && journal.aside.at[0].unit.aside_ns == 1000 * SECOND);
    assert_int_equal(dp_push_journal_again(&journal, 0), 0);
    assert_int_equal(dp_push_journal_done(&journal, DP_PUSH_DOUBT), 0);
    reopen();
    assert_true(journal.counts[DP_PUSH_DOUBT] == 2 && !journal.aside.n);
    assert_true(dp_push_journal_is_settled(&journal, 99, "server.7.0001.heap.pb.gz"));
}

TEST_WITH(begin_test, end_test, a_deleted_file_counts_once_and_is_not_set_aside_any_more)
{
    begin_unit(1, 1);
    assert_int_equal(dp_push_journal_aside(&journal, SECOND, "status 500"), 0);
    assert_false(dp_push_journal_holds(&journal, key_of(1)));
    for (int i = 0; i < 2; i++)
        assert_int_equal(dp_push_journal_gone(&journal, key_of(1)), 0);
    assert_true(journal.counts[DP_PUSH_GONE] == 1 && !journal.aside.n);
    reopen();
}

/* Files 6 to 8 were never seen: the next one that is missed has a higher number. */
TEST_WITH(begin_test, end_test, missed_files_are_counted_once)
{
    begin_unit(5, 1);
    assert_int_equal(dp_push_journal_done(&journal, DP_PUSH_ACCEPTED), 0);
    assert_int_equal(dp_push_journal_seen(&journal, 99), 5);
    assert_int_equal(dp_push_journal_missed(&journal, 99, 9, 3), 0);
    assert_int_equal(dp_push_journal_seen(&journal, 99), 8);
    assert_int_equal(dp_push_journal_seen(&journal, 98), 0);
    assert_int_equal(journal.counts[DP_PUSH_GONE], 3);
    reopen();
    assert_int_equal(dp_push_journal_seen(&journal, 99), 8);
}

static bool only_7(void *ctx, const char *key)
{
    (void)ctx;
    return !strcmp(key, key_of(7));
}

TEST_WITH(begin_test, end_test, a_compacted_journal_has_the_units_that_are_set_aside)
{
    begin_unit(1, 3);
    settle_part(DP_PUSH_REFUSED);
    settle_part(DP_PUSH_DOUBT);
    assert_int_equal(dp_push_journal_aside(&journal, 5 * SECOND, "status 500: no"), 0);
    begin_unit(4, 1);
    assert_int_equal(dp_push_journal_aside(&journal, 6 * SECOND, ""), 0);
    unsigned n = 5;
    for (size_t before = 0; journal.n_bytes > before; n++) {
        before = journal.n_bytes;
        begin_unit(n, 1);
        assert_int_equal(dp_push_journal_done(&journal, DP_PUSH_ACCEPTED), 0);
        assert_int_equal(dp_push_journal_compact(&journal, only_7, NULL), 0);
    }
    assert_in_range(journal.n_bytes, 100, 2000); /* it was over a megabyte */
    assert_int_equal(journal.counts[DP_PUSH_ACCEPTED], n - 5);
    reopen();
    assert_int_equal(journal.aside.n, 2);
    assert_true(journal.aside.at[0].unit.part == 2 && journal.aside.at[0].unit.is_refused);
    assert_true(dp_push_journal_is_settled(&journal, 99, "server.7.0007.heap.pb.gz"));
    assert_false(dp_push_journal_is_settled(&journal, 99, "server.7.0008.heap.pb.gz"));
    begin_unit(n, 1);
    for (int i = 0; i < 2; i++)
        assert_true(journal.aside.at[i].unit.id != journal.unit.id);
}

/* One random step that a pusher may take. */
static void step(unsigned random, unsigned *n)
{
    if (!journal.unit.n_files) {
        if (journal.aside.n && random % 4 == 0)
            assert_int_equal(dp_push_journal_again(&journal, (int)(random / 4 % journal.aside.n)), 0);
        else if (random % 4 == 1)
            assert_int_equal(dp_push_journal_gone(&journal, key_of((*n)++)), 0);
        else
            begin_unit(*n, 1 + random / 4 % 5), *n += 5;
        return;
    }
    switch (random % 6) {
    case 0:
        assert_int_equal(dp_push_journal_sending(&journal), 0);
        break;
    case 1:
        assert_int_equal(dp_push_journal_back(&journal), 0);
        break;
    case 2:
        assert_int_equal(dp_push_journal_part(&journal, random / 6 % 3), 0);
        break;
    case 3:
        assert_int_equal(dp_push_journal_done(&journal, random / 6 % 3), 0);
        break;
    case 4:
        assert_int_equal(dp_push_journal_back(&journal), 0);
        assert_int_equal(dp_push_journal_aside(&journal, (int64_t)random * SECOND, "status 500: \x01 no"), 0);
        break;
    default:
        if (!journal.unit.part)
            assert_int_equal(dp_push_journal_undo(&journal), 0);
    }
}

TEST_WITH(begin_test, end_test, the_next_pusher_has_the_state_of_the_last_one)
{
    unsigned random = 1, n = 1;
    for (int i = 0; i < 600; i++) {
        random = random * 1103515245u + 12345u;
        step(random >> 8, &n);
        if (i % 3 == 0)
            reopen();
    }
    assert_true(journal.counts[DP_PUSH_ACCEPTED] > 40 && journal.counts[DP_PUSH_GONE] > 10 && n > 400);
}

TEST_WITH(begin_test, end_test, a_name_may_have_a_line_end)
{
    static const char *const names[] = {"a\nb.7.0001.heap.pb.gz", "\n\n.7.0002.heap.pb.gz", "gone\n.7.0003.heap.pb.gz",
                                        "kept\n.7.0004.heap.pb.gz"};
    char keys[4][DP_PUSH_KEY_BYTES];
    for (int i = 0; i < 4; i++)
        dp_push_journal_key(keys[i], 99, names[i]);
    assert_int_equal(dp_push_journal_begin(&journal, (const char *const[]){keys[0], keys[3]}, 2), 0);
    reopen();
    assert_int_equal(dp_push_journal_done(&journal, DP_PUSH_ACCEPTED), 0);
    assert_int_equal(dp_push_journal_gone(&journal, keys[2]), 0);
    reopen();
    assert_int_equal(journal.n_broken, 0);
    assert_int_equal(journal.counts[DP_PUSH_ACCEPTED], 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(dp_push_journal_is_settled(&journal, 99, names[i]), i != 1);
    assert_false(dp_push_journal_is_settled(&journal, 99, "a"));
}

TEST_WITH(begin_test, end_test, a_reader_changes_nothing)
{
    begin_unit(1, 2);
    assert_int_equal(pwrite(journal.fd, "incomplete", 10, (off_t)journal.n_bytes), 10);
    struct dp_push_journal reader;
    assert_int_equal(dp_push_journal_read(&reader, dir_fd, journal.name), 0);
    assert_string_equal(state_of(&reader), state_of(&journal));
    dp_push_journal_close(&reader);
    assert_int_equal(lseek(journal.fd, 0, SEEK_END), (off_t)journal.n_bytes + 10);
}

UNIT(NULL, NULL)
