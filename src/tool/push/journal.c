/* SPDX-License-Identifier: MIT */
/*
 * tool/push/journal.c - opens and replays a journal; journal_write.c and journal_aside.c append to it.
 *
 * A line is a CRC-32 of the rest in hex, a blank, and one of these:
 *
 *     deltaprof-push 1 ADDRESS     the first line
 *     file ID KEY                  a file of unit ID
 *     unit ID                      that unit is complete, and is under way
 *     send PART                    from here on the part may have reached the receiver
 *     back PART                    the part did not reach the receiver
 *     part PART OUTCOME            the part was settled
 *     done OUTCOME                 the unit was settled, with all its files
 *     undo                         no part of the unit was delivered; its files are pending again
 *     gone KEY                     the file was deleted before it was sent
 *     aside SINCE TRIED N WHY      the unit is set aside since that Unix time, was last tried at that one, and N files
 *                                  had been accepted when it was set aside
 *     again ID                     the unit, which was set aside, is under way again
 *     missed STAMP SEQ N           N files of ticks below SEQ were deleted unseen
 *     mended                       files that broken lines before here may have settled were settled
 *     kept KEY, seen STAMP SEQ, count N N N N     after a compaction; then come the units that are set aside
 *
 * A KEY ends in the name of a file, which may have line ends but no slash. So a slash in a KEY stands for a line end.
 *
 * Invariant: no byte of a part's end leaves before its `send` is in the file. So after a crash a part without `send`
 * was not delivered, and a part with `send` but without an answer is in doubt. A line that was cut off is removed when
 * the journal is opened; files of a unit without its `unit` line were never under way. A whole line with another CRC is
 * broken: a person or a disk changed it. It may have settled any file that is no newer than the journal, so all those
 * that other lines do not settle are in doubt.
 *
 * The lock is on the journal itself. A compaction makes another file, locks it and renames it over the old one; a
 * process that waited for the old file sees that its name now leads elsewhere, and starts over. The same happens after
 * a journal was removed, because nothing was in it.
 */
#include "tool/push/journal_lines.h"

#include "base/hash.h"
#include "base/io.h"
#include "profile/file_name.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL_MAX ((off_t)1 << 30)

/* FNV-1a: the same in every process and release, because it is part of a file's name. */
static uint64_t name_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash;
}

int dp_push_journal_settle(struct dp_push_journal *j, const char *key)
{
    uint32_t number = dp_strings_add(&j->keys, key, strlen(key));
    if (number == DP_STRINGS_NONE || (number >= j->settled.n && !dp_vec_room(&j->settled, number + 1 - j->settled.n)))
        return -ENOMEM;
    while (j->settled.n <= number)
        j->settled.at[j->settled.n++] = 0;
    j->settled.at[number] = 1;

    uint64_t stamp;
    struct dp_profile_name name;
    const char *space = strchr(key, ' ');
    if (!space || sscanf(key, "%" SCNx64 " ", &stamp) != 1 || !dp_profile_name_parse(space + 1, &name))
        return 0;
    return dp_push_journal_note_seq(j, stamp, name.seq);
}

int dp_push_journal_note_seq(struct dp_push_journal *j, uint64_t stamp, unsigned long long seq)
{
    for (size_t i = 0; i < j->seen.n; i++)
        if (j->seen.at[i].stamp == stamp) {
            if (seq > j->seen.at[i].seq)
                j->seen.at[i].seq = seq;
            return 0;
        }
    struct dp_push_seen *seen = dp_vec_push(&j->seen);
    if (!seen)
        return -ENOMEM;
    *seen = (struct dp_push_seen){stamp, seq};
    return 0;
}

unsigned long long dp_push_journal_seen(const struct dp_push_journal *j, uint64_t stamp)
{
    for (size_t i = 0; i < j->seen.n; i++)
        if (j->seen.at[i].stamp == stamp)
            return j->seen.at[i].seq;
    return 0;
}

/* A journal that is read by its name has no target yet. */
static int apply_target(struct dp_push_journal *j, const char *line)
{
    int at = 0;
    sscanf(line, "deltaprof-push 1 %n", &at);
    if (at && !*j->target)
        snprintf(j->target, sizeof j->target, "%s", line + at);
    return at && !strcmp(line + at, j->target) ? 0 : -EEXIST;
}

static int apply_aside(struct dp_push_journal *j, const char *line)
{
    struct dp_push_aside how = {.tried_ns = 0};
    long long since_s, tried_s;
    unsigned long long n_accepted;
    int at = 0;
    if (sscanf(line, "aside %lld %lld %llu %n", &since_s, &tried_s, &n_accepted, &at) != 3 || !at)
        return 0;
    how.unit.aside_ns = since_s * INT64_C(1000000000);
    how.unit.n_accepted = n_accepted;
    how.tried_ns = tried_s * INT64_C(1000000000);
    snprintf(how.why, sizeof how.why, "%s", line + at);
    return dp_push_journal_put_aside(j, &how);
}

/* The key at the end of a line, with the line ends that its file's name has. */
static const char *key_in(char *key)
{
    for (char *at = key; (at = strchr(at, '/'));)
        *at = '\n';
    return key;
}

/* Applies one line to the state. 0, -ENOMEM, or -EEXIST: the journal is another receiver's. Unknown lines are skipped.
 */
static int apply(struct dp_push_journal *j, char *line)
{
    unsigned long long id, seq, n[DP_PUSH_N_OUTCOMES];
    uint64_t stamp;
    unsigned part, outcome;
    int at = 0;
    if (!strncmp(line, "deltaprof-push ", 15))
        return apply_target(j, line);
    if (!strncmp(line, "aside ", 6))
        return apply_aside(j, line);
    if (sscanf(line, "again %llu", &id) == 1)
        return dp_push_journal_bring_back(j, id), 0;
    if (sscanf(line, "file %llu %n", &id, &at) == 1 && at)
        return dp_push_journal_add_file(j, id, key_in(line + at));
    if (sscanf(line, "unit %llu", &id) == 1)
        dp_push_journal_start_unit(j, id);
    else if (sscanf(line, "send %u", &part) == 1)
        j->unit.part = part, j->unit.is_sent = true;
    else if (sscanf(line, "back %u", &part) == 1)
        j->unit.part = part, j->unit.is_sent = false;
    else if (sscanf(line, "part %u %u", &part, &outcome) == 2)
        dp_push_journal_end_part(j, part, outcome);
    else if (!strcmp(line, "undo"))
        j->unit.n_files = 0;
    else if (!strncmp(line, "gone ", 5))
        return dp_push_journal_settle_gone(j, key_in(line + 5));
    else if (!strcmp(line, "mended"))
        j->n_broken = 0;
    else if (sscanf(line, "done %u", &outcome) == 1 && outcome < DP_PUSH_N_OUTCOMES)
        return dp_push_journal_end_unit(j, outcome);
    else if (sscanf(line, "missed %" SCNx64 " %llu %llu", &stamp, &seq, &id) == 3) {
        j->counts[DP_PUSH_GONE] += id;
        return dp_push_journal_note_seq(j, stamp, seq - 1);
    } else if (!strncmp(line, "kept ", 5))
        return dp_push_journal_settle(j, key_in(line + 5));
    else if (sscanf(line, "seen %" SCNx64 " %llu", &stamp, &seq) == 2)
        return dp_push_journal_note_seq(j, stamp, seq);
    else if (sscanf(line, "count %llu %llu %llu %llu", &n[0], &n[1], &n[2], &n[3]) == 4)
        for (int i = 0; i < DP_PUSH_N_OUTCOMES; i++)
            j->counts[i] = n[i];
    return 0;
}

/* Reads all complete lines; *n_file: the bytes of the file, which may end in an incomplete line. */
static int replay(struct dp_push_journal *j, off_t *n_file)
{
    struct stat st;
    DP_VEC(char) text = {0};
    int err = fstat(j->fd, &st) ? -errno : st.st_size > JOURNAL_MAX ? -EFBIG : 0;
    if (!err && !dp_vec_room(&text, (size_t)st.st_size + 1))
        err = -ENOMEM;
    ssize_t n = err ? err : dp_io_read_at(j->fd, text.at, (size_t)st.st_size, 0);
    text.n = n > 0 ? (size_t)n : 0;
    err = n < 0 ? (int)n : 0;
    char *end;
    for (size_t at = 0; !err && at < text.n && (end = memchr(text.at + at, '\n', text.n - at));
         at = j->n_bytes = (size_t)(end - text.at) + 1) {
        unsigned crc;
        char *line = text.at + at;
        *end = 0;
        size_t n_line = (size_t)(end - line);
        if (n_line > 9 && sscanf(line, "%8x ", &crc) == 1 && crc == dp_hash_crc32(0, line + 9, n_line - 9))
            err = apply(j, line + 9);
        else
            j->n_broken++;
    }
    j->broken_ns = err ? 0 : st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    *n_file = err ? 0 : st.st_size;
    dp_vec_fini(&text);
    return err;
}

/* Opens the file and locks it; makes sure that the name still leads to it. */
static int open_locked(struct dp_push_journal *j)
{
    struct stat by_fd, by_name;
    for (;;) {
        j->fd = openat(j->dir_fd, j->name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (j->fd < 0)
            return -errno;
        if (flock(j->fd, LOCK_EX | LOCK_NB))
            return -errno;
        if (!fstat(j->fd, &by_fd) && !fstatat(j->dir_fd, j->name, &by_name, AT_SYMLINK_NOFOLLOW) &&
            by_fd.st_ino == by_name.st_ino)
            return S_ISREG(by_fd.st_mode) ? 0 : -EINVAL;
        close(j->fd);
    }
}

int dp_push_journal_open(struct dp_push_journal *j, int dir_fd, const char *target)
{
    *j = (struct dp_push_journal){.dir_fd = dir_fd, .fd = -1};
    snprintf(j->name, sizeof j->name, ".push.%016" PRIx64, name_hash(target));
    snprintf(j->target, sizeof j->target, "%s", target);
    off_t n_file = 0;
    int err = open_locked(j);
    if (!err)
        err = replay(j, &n_file);
    if (!err && (off_t)j->n_bytes < n_file && ftruncate(j->fd, (off_t)j->n_bytes))
        err = -errno;
    if (!err && !j->n_bytes)
        err = dp_push_journal_line(j, "deltaprof-push 1 %s", j->target);
    j->n_compact = j->n_bytes;
    if (err)
        dp_push_journal_close(j);
    return err;
}

int dp_push_journal_read(struct dp_push_journal *j, int dir_fd, const char *name)
{
    off_t n_file;
    *j = (struct dp_push_journal){.dir_fd = dir_fd, .fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
    snprintf(j->name, sizeof j->name, "%s", name);
    int err = j->fd < 0 ? -errno : replay(j, &n_file);
    if (err)
        dp_push_journal_close(j);
    return err;
}

void dp_push_journal_remove_blank(struct dp_push_journal *j)
{
    bool blank = !j->aside.n && !j->n_broken && !j->settled.n && !j->seen.n &&
                 !(j->unit.n_files && (j->unit.part || j->unit.is_sent));
    for (int i = 0; i < DP_PUSH_N_OUTCOMES; i++)
        blank &= !j->counts[i];
    if (blank)
        unlinkat(j->dir_fd, j->name, 0);
}

void dp_push_journal_close(struct dp_push_journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
    dp_strings_fini(&j->keys);
    dp_strings_fini(&j->unit.keys);
    for (size_t i = 0; i < j->aside.n; i++)
        dp_strings_fini(&j->aside.at[i].unit.keys);
    dp_vec_fini(&j->aside);
    dp_vec_fini(&j->settled);
    dp_vec_fini(&j->seen);
}
