/* SPDX-License-Identifier: MIT */
/*
 * tool/push/journal_write.c - appends lines to a journal, changes the state in memory accordingly, and compacts the
 * journal.
 *
 * `send` is on the disk before any byte is sent, so that a machine that lost power sends nothing twice. Other lines may
 * be lost with the power: their files are then either in doubt or sent again as if never sent.
 */
#include "tool/push/journal_lines.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define COMPACT_BYTES ((size_t)1 << 20)

int dp_push_journal_line(struct dp_push_journal *j, const char *format, ...)
{
    char line[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + 9, sizeof line - 10, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line - 10)
        return -ENAMETOOLONG;
    for (int i = 0; i < n; i++)
        if (line[9 + i] == '\n')
            line[9 + i] = '/'; /* no file name has a slash, so a reader can tell it from other bytes of a key */
    char crc[10];
    snprintf(crc, sizeof crc, "%08" PRIx32 " ", dp_hash_crc32(0, line + 9, (size_t)n));
    memcpy(line, crc, 9);
    line[9 + n] = '\n';
    size_t n_line = (size_t)n + 10;
    ssize_t written = pwrite(j->fd, line, n_line, (off_t)j->n_bytes);
    if (written == (ssize_t)n_line) {
        j->n_bytes += n_line;
        return 0;
    }
    int err = written < 0 ? -errno : -ENOSPC;
    if (written > 0 && ftruncate(j->fd, (off_t)j->n_bytes))
        err = -errno; /* the next line overwrites the partial one; readers skip a partial line */
    return err;
}

void dp_push_journal_key(char to[DP_PUSH_KEY_BYTES], uint64_t stamp, const char *name)
{
    snprintf(to, DP_PUSH_KEY_BYTES, "%016" PRIx64 " %s", stamp, name);
}

static bool is_settled(struct dp_push_journal *j, const char *key)
{
    uint32_t number = dp_strings_add(&j->keys, key, strlen(key));
    return number != DP_STRINGS_NONE && number < j->settled.n && j->settled.at[number];
}

bool dp_push_journal_is_settled(struct dp_push_journal *j, uint64_t stamp, const char *name)
{
    char key[DP_PUSH_KEY_BYTES];
    dp_push_journal_key(key, stamp, name);
    return is_settled(j, key);
}

/* ---- the unit under way ----------------------------------------------------------------------------------------- */

int dp_push_journal_add_file(struct dp_push_journal *j, unsigned long long id, const char *key)
{
    if (id != j->unit.id || j->unit.n_files)
        dp_strings_clear(&j->unit.keys);
    j->unit.id = id;
    j->unit.n_files = 0;
    if (id > j->last_id)
        j->last_id = id;
    return dp_strings_add(&j->unit.keys, key, strlen(key)) == DP_STRINGS_NONE ? -ENOMEM : 0;
}

void dp_push_journal_start_unit(struct dp_push_journal *j, unsigned long long id)
{
    struct dp_strings keys = j->unit.keys;
    if (id == j->unit.id)
        j->unit = (struct dp_push_unit){keys, dp_strings_count(&keys) ? dp_strings_count(&keys) - 1 : 0, .id = id};
}

void dp_push_journal_end_part(struct dp_push_journal *j, unsigned part, enum dp_push_outcome outcome)
{
    j->unit.part = part + 1;
    j->unit.is_sent = false;
    j->unit.in_doubt |= outcome == DP_PUSH_DOUBT;
    j->unit.is_refused |= outcome == DP_PUSH_REFUSED;
}

int dp_push_journal_end_unit(struct dp_push_journal *j, enum dp_push_outcome outcome)
{
    for (uint32_t i = 1; i <= j->unit.n_files; i++) {
        int err = dp_push_journal_settle(j, dp_strings_at(&j->unit.keys, i));
        if (err)
            return err;
    }
    j->counts[outcome] += j->unit.n_files;
    j->unit.n_files = 0;
    return 0;
}

int dp_push_journal_begin(struct dp_push_journal *j, const char *const *keys, size_t n_keys)
{
    unsigned long long id = j->last_id + 1;
    for (size_t i = 0; i < n_keys; i++) {
        int err = dp_push_journal_line(j, "file %llu %s", id, keys[i]);
        if (!err)
            err = dp_push_journal_add_file(j, id, keys[i]);
        if (err)
            return err;
    }
    int err = dp_push_journal_line(j, "unit %llu", id);
    if (!err)
        dp_push_journal_start_unit(j, id);
    return err;
}

int dp_push_journal_sending(struct dp_push_journal *j)
{
    int err = dp_push_journal_line(j, "send %u", j->unit.part);
    if (!err && fdatasync(j->fd))
        err = -errno;
    j->unit.is_sent = !err;
    return err;
}

int dp_push_journal_back(struct dp_push_journal *j)
{
    int err = j->unit.is_sent ? dp_push_journal_line(j, "back %u", j->unit.part) : 0;
    if (!err)
        j->unit.is_sent = false;
    return err;
}

int dp_push_journal_part(struct dp_push_journal *j, enum dp_push_outcome outcome)
{
    int err = dp_push_journal_line(j, "part %u %u", j->unit.part, outcome);
    dp_push_journal_end_part(j, j->unit.part, outcome);
    return err;
}

int dp_push_journal_done(struct dp_push_journal *j, enum dp_push_outcome outcome)
{
    int err = dp_push_journal_line(j, "done %u", outcome);
    int err_state = dp_push_journal_end_unit(j, outcome);
    return err ? err : err_state;
}

int dp_push_journal_undo(struct dp_push_journal *j)
{
    int err = dp_push_journal_line(j, "undo");
    if (!err)
        j->unit.n_files = 0;
    return err;
}

int dp_push_journal_gone(struct dp_push_journal *j, const char *key)
{
    int err = is_settled(j, key) ? 0 : dp_push_journal_line(j, "gone %s", key);
    return err ? err : dp_push_journal_settle_gone(j, key);
}

int dp_push_journal_settle_gone(struct dp_push_journal *j, const char *key)
{
    j->counts[DP_PUSH_GONE] += !is_settled(j, key);
    dp_push_journal_drop_aside(j, key);
    return dp_push_journal_settle(j, key);
}

int dp_push_journal_mended(struct dp_push_journal *j)
{
    int err = dp_push_journal_line(j, "mended");
    if (!err)
        j->n_broken = 0;
    return err;
}

int dp_push_journal_missed(struct dp_push_journal *j, uint64_t stamp, unsigned long long seq, uint64_t n_files)
{
    int err = dp_push_journal_line(j, "missed %" PRIx64 " %llu %llu", stamp, seq, (unsigned long long)n_files);
    if (err)
        return err;
    j->counts[DP_PUSH_GONE] += n_files;
    return dp_push_journal_note_seq(j, stamp, seq - 1);
}

/* ---- compaction ------------------------------------------------------------------------------------------------- */

/* Writes to `to`, whose file is empty, the part of `from` that is still needed. The highest SEQ of a process is needed
 * while one of its files exists. */
static int copy(struct dp_push_journal *to, struct dp_push_journal *from, dp_push_exists_fn exists, void *ctx)
{
    int err = dp_push_journal_line(to, "deltaprof-push 1 %s", from->target);
    if (!err)
        err = dp_push_journal_line(to, "count %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, from->counts[0],
                                   from->counts[1], from->counts[2], from->counts[3]);
    memcpy(to->counts, from->counts, sizeof to->counts);
    for (uint32_t i = 1; i < dp_strings_count(&from->keys) && !err; i++) {
        const char *key = dp_strings_at(&from->keys, i);
        if (!exists(ctx, key))
            continue;
        uint64_t stamp = 0;
        sscanf(key, "%" SCNx64, &stamp);
        unsigned long long seq = dp_push_journal_seen(from, stamp);
        if (seq && !dp_push_journal_seen(to, stamp)) {
            err = dp_push_journal_line(to, "seen %" PRIx64 " %llu", stamp, seq);
            err = err ? err : dp_push_journal_note_seq(to, stamp, seq);
        }
        if (!err && i < from->settled.n && from->settled.at[i]) {
            err = dp_push_journal_line(to, "kept %s", key);
            err = err ? err : dp_push_journal_settle(to, key);
        }
    }
    for (size_t i = 0; i < from->aside.n && !err; i++)
        err = dp_push_journal_write_aside(to, &from->aside.at[i]);
    return err;
}

int dp_push_journal_compact(struct dp_push_journal *j, dp_push_exists_fn exists, void *ctx)
{
    if (j->unit.n_files || j->n_broken || j->n_bytes < COMPACT_BYTES || j->n_bytes < 2 * j->n_compact)
        return 0;
    char temporary[sizeof j->name + 8];
    snprintf(temporary, sizeof temporary, "%s.new", j->name);
    struct dp_push_journal next = {.dir_fd = j->dir_fd, .last_id = j->last_id};
    memcpy(next.name, j->name, sizeof next.name);
    memcpy(next.target, j->target, sizeof next.target);
    next.fd = openat(j->dir_fd, temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (next.fd < 0)
        return -errno;
    int err = flock(next.fd, LOCK_EX | LOCK_NB) ? -errno : copy(&next, j, exists, ctx);
    if (!err && (fdatasync(next.fd) || renameat(j->dir_fd, temporary, j->dir_fd, j->name)))
        err = -errno;
    if (err) {
        unlinkat(j->dir_fd, temporary, 0);
        dp_push_journal_close(&next);
        return err;
    }
    fsync(j->dir_fd);
    next.n_compact = next.n_bytes;
    dp_push_journal_close(j);
    *j = next;
    return 0;
}
