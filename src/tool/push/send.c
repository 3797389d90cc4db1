/* SPDX-License-Identifier: MIT */
/*
 * tool/push/send.c - sends a unit: records its start in the journal, sends it part by part, and records its outcome.
 *
 * States of a part, as the journal has them:
 *
 *     begun --send--> on its way --part ACCEPTED / REFUSED / DOUBT--> next part
 *       ^                 |
 *       +------back-------+        DOUBT: no answer came, or this process was killed
 *
 * If an earlier pusher ended in the middle of a unit, its last part is settled first, and then the unit is continued.
 * With --repeat a part in doubt is sent again, under the same id. If lines of the journal are broken, all files that
 * those lines may have named are in doubt. A unit on which the receiver fails again and again is set aside, with the
 * outcome of its parts. Joined files of which one cannot be read are sent one by one.
 */
#include "tool/push/send.h"

#include "base/clock.h"
#include "tool/push/wakeups.h"
#include "tool/push/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SECOND                INT64_C(1000000000)
#define FIRST_PAUSE           (SECOND / 4)
#define LONGEST_PAUSE         (60 * SECOND)
#define LONGEST_RETRY_AFTER_S 600
/* After this many shortages of memory in a row, over several minutes, the files are too large for this process. */
#define MOST_SHORTAGES 10
/* If a receiver has answered 5xx to a unit for this long, the other units are sent first. */
#define LONGEST_FAILING (3600 * SECOND)
/* If it still does so after this time, and has accepted others, it never will accept this one. */
#define LONGEST_ASIDE (24 * LONGEST_FAILING)

/*
 * Sets the time of the next request. The pause doubles with each failure in a row, from 0.25 s to a minute; a random
 * part of up to half of it is subtracted. If the receiver requested a longer pause, that one is used.
 */
static void pause_after(struct dp_push_sender *s, int64_t retry_after_s)
{
    unsigned doublings = s->n_failures < 8 ? s->n_failures : 8;
    int64_t pause = FIRST_PAUSE << doublings;
    uint32_t random = 0;
    if (pause > LONGEST_PAUSE)
        pause = LONGEST_PAUSE;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = (uint32_t)dp_clock_ns();
    pause -= (int64_t)((double)(pause / 2) * random / UINT32_MAX);
    if (retry_after_s > LONGEST_RETRY_AFTER_S)
        retry_after_s = LONGEST_RETRY_AFTER_S;
    if (retry_after_s > 0 && pause < retry_after_s * SECOND)
        pause = retry_after_s * SECOND;
    s->n_failures++;
    s->not_before_ns = dp_clock_ns() + pause;
}

/* How long a unit stays set aside before it is tried again. */
static int64_t aside_for(const struct dp_push_sender *s)
{
    int64_t most = s->options->is_once ? s->options->wait_ns / 2 : LONGEST_FAILING;
    return most < LONGEST_FAILING ? most : LONGEST_FAILING;
}

/* When a unit is set aside that fails since failing_ns. The other units get half of the time that was left then. */
static int64_t aside_at(const struct dp_push_sender *s, int64_t failing_ns)
{
    int64_t half = s->end_ns ? (s->end_ns - failing_ns) / 2 : LONGEST_FAILING;
    return failing_ns + (half < LONGEST_FAILING ? half : LONGEST_FAILING);
}

/* The unit under way, for a message: its first file and the number of others. The text is good until the next call. */
static const char *unit_name(const struct dp_push_queue *q)
{
    static char text[900];
    const struct dp_push_unit *unit = &q->journal.unit;
    const char *name = strchr(dp_strings_at(&unit->keys, 1), ' ') + 1;
    if (unit->n_files > 1)
        snprintf(text, sizeof text, "%s/%s and %zu more", q->path, name, unit->n_files - 1);
    else
        snprintf(text, sizeof text, "%s/%s", q->path, name);
    return text;
}

/* A dp_push_leaving_fn: records that the last bytes of a part are about to leave. */
static int record_sending(void *queue)
{
    struct dp_push_queue *q = queue;
    return dp_push_journal_sending(&q->journal);
}

/* Settles the unit under way; ACCEPTED: with the outcome of its parts. 1, or a negative errno. */
static int settle_unit(struct dp_push_queue *q, enum dp_push_outcome outcome)
{
    struct dp_push_journal *j = &q->journal;
    if (outcome == DP_PUSH_ACCEPTED)
        outcome = j->unit.in_doubt ? DP_PUSH_DOUBT : j->unit.is_refused ? DP_PUSH_REFUSED : DP_PUSH_ACCEPTED;
    dp_push_queue_settled(q);
    int err = dp_push_journal_done(j, outcome);
    return err ? err : 1;
}

/* Sets the unit under way aside. Files that were joined become units of their own, unless a part was settled. */
static int move_aside(struct dp_push_queue *q, const struct dp_push_file *const *files, size_t n_files, const char *why)
{
    struct dp_push_journal *j = &q->journal;
    int64_t now_ns = dp_clock_wall_ns();
    dp_push_queue_aside(q);
    if (n_files == 1 || j->unit.part)
        return dp_push_journal_aside(j, now_ns, why);
    int err = dp_push_journal_undo(j);
    for (size_t i = 0; i < n_files && !err; i++) {
        char key[DP_PUSH_KEY_BYTES];
        const char *keys[] = {key};
        dp_push_journal_key(key, files[i]->stamp, files[i]->name);
        err = dp_push_journal_begin(j, keys, 1);
        err = err ? err : dp_push_journal_aside(j, now_ns, why);
    }
    return err;
}

/*
 * Sets the unit under way aside if the receiver has failed on it for too long, or does so again: the unit may be the
 * cause, as where a server fails on one profile. If the receiver itself fails, nothing is lost: the files are still
 * pending. After a day the part is refused, if others were accepted meanwhile. Returns as act_on_reply does.
 */
static int move_aside_if_failing(struct dp_push_sender *s, struct dp_push_queue *q,
                                 const struct dp_push_file *const *files, size_t n_files,
                                 const struct dp_push_reply *reply)
{
    struct dp_push_journal *j = &q->journal;
    int64_t now = dp_clock_ns(), aside_ns = j->unit.aside_ns;
    if (reply->status < 500 && reply->verdict != DP_PUSH_UNKNOWN)
        q->failing_ns = 0;
    else if (!q->failing_ns)
        q->failing_ns = now;
    if (!q->failing_ns)
        return 0;
    int64_t at_ns = aside_at(s, q->failing_ns);
    if (!aside_ns && now < at_ns) { /* a pause beyond that time would take the time of the others */
        int64_t latest_ns = at_ns > now + FIRST_PAUSE ? at_ns : now + FIRST_PAUSE;
        if (reply->retry_after_s <= 0 && s->not_before_ns > latest_ns)
            s->not_before_ns = latest_ns;
        return 0;
    }
    q->failing_ns = 0;
    s->n_failures = 0; /* the other units are sent after a short pause */
    pause_after(s, reply->retry_after_s);
    if (aside_ns && dp_clock_wall_ns() - aside_ns >= LONGEST_ASIDE &&
        j->counts[DP_PUSH_ACCEPTED] > j->unit.n_accepted) {
        dp_push_say("%s: refused, since %s has failed on it for a day and has accepted others: %s", unit_name(q),
                    s->options->target.address, reply->why);
        int err = dp_push_journal_part(j, DP_PUSH_REFUSED);
        return err ? err : 1;
    }
    if (!aside_ns)
        dp_push_say("%s: set aside, since %s goes on failing: %s; others are sent before it", unit_name(q),
                    s->options->target.address, reply->why);
    return move_aside(q, files, n_files, reply->why);
}

/* Acts on an answer. 1: the part was settled; 0: it must be sent again; or a negative errno. */
static int act_on_reply(struct dp_push_sender *s, struct dp_push_queue *q, const struct dp_push_file *const *files,
                        size_t n_files, const struct dp_push_reply *reply)
{
    int err = 0;
    enum dp_push_verdict verdict = reply->verdict;
    enum dp_push_outcome outcome = DP_PUSH_ACCEPTED;
    if (verdict == DP_PUSH_UNKNOWN && s->options->repeats)
        verdict = DP_PUSH_LATER;
    switch (verdict) {
    case DP_PUSH_LATER:
        dp_push_say("%s: %s; trying again", s->options->target.address, reply->why);
        pause_after(s, reply->retry_after_s);
        err = dp_push_journal_back(&q->journal);
        return err ? err : move_aside_if_failing(s, q, files, n_files, reply);
    case DP_PUSH_NEVER:
        dp_push_say("%s: refused by %s: %s", unit_name(q), s->options->target.address, reply->why);
        outcome = DP_PUSH_REFUSED;
        break;
    case DP_PUSH_UNKNOWN:
        dp_push_say("%s: perhaps delivered to %s, not sent again: %s", unit_name(q), s->options->target.address,
                    reply->why);
        outcome = DP_PUSH_DOUBT;
        pause_after(s, 0); /* without a pause, a receiver that never answers would put every file in doubt */
        break;
    case DP_PUSH_TAKEN:
        dp_push_say_well();
        s->n_failures = 0;
        break;
    }
    q->failing_ns = 0;
    err = dp_push_journal_part(&q->journal, outcome);
    return err ? err : 1;
}

static void free_scratch(struct dp_push_sender *s)
{
    dp_push_profile_fini(&s->profile);
    dp_push_body_fini(&s->body);
}

/* Whether the file may still grow, because it is being copied. */
static bool may_grow(const struct dp_push_queue *q, const struct dp_push_file *file)
{
    struct stat st;
    return !fstatat(q->dir_fd, file->name, &st, AT_SYMLINK_NOFOLLOW) && dp_push_queue_is_young(&st);
}

/*
 * Counts the missing files of the unit under way as deleted, and makes the others pending again. If a part was settled,
 * the other parts cannot be made any more: the whole unit is settled.
 */
static int lose_missing(struct dp_push_queue *q)
{
    struct dp_push_journal *j = &q->journal;
    int err = 0;
    if (j->unit.part)
        return settle_unit(q, j->unit.in_doubt ? DP_PUSH_DOUBT : DP_PUSH_GONE);
    for (uint32_t i = 1; i <= j->unit.n_files && !err; i++) {
        const char *key = dp_strings_at(&j->unit.keys, i);
        if (dp_push_queue_has(q, key))
            continue;
        err = dp_push_journal_gone(j, key);
        dp_push_queue_settled_key(q, key);
    }
    err = err ? err : dp_push_journal_undo(j);
    return err ? err : 1;
}

/* Makes joined files pending again, and has them sent one by one: only a file that cannot be read is refused then. */
static int divide_unit(struct dp_push_sender *s, struct dp_push_queue *q, size_t n_files)
{
    int err = dp_push_journal_undo(&q->journal);
    free_scratch(s);
    s->n_single = n_files;
    return err ? err : 1;
}

/* Acts on files that could not be read. Returns as send_parts does. */
static int give_up(struct dp_push_sender *s, struct dp_push_queue *q, const struct dp_push_file *const *files,
                   size_t n_files, int err, const char *why)
{
    if (err == -ENOENT || err == -ELOOP)
        return lose_missing(q);
    if (n_files > 1 && !q->journal.unit.part && (err == -EBADMSG || err == -EFBIG || err == -ENOMEM))
        return divide_unit(s, q, n_files);
    if (err == -EBADMSG && may_grow(q, files[n_files - 1])) {
        pause_after(s, 0);
        return 0;
    }
    if (err == -ENOMEM && ++s->n_shortages < MOST_SHORTAGES) {
        dp_push_say("%s: %s; trying again", unit_name(q), strerror(ENOMEM));
        free_scratch(s);
        pause_after(s, 0);
        return 0;
    }
    if (err != -EBADMSG && err != -EFBIG && err != -ENOMEM)
        return err;
    s->n_shortages = 0;
    dp_push_say("%s: %s", unit_name(q), err == -EBADMSG ? why : strerror(-err));
    return settle_unit(q, DP_PUSH_REFUSED);
}

/* Sends the parts that are left. 1: the unit was settled; 0: it must wait; or a negative errno. */
static int send_parts(struct dp_push_sender *s, struct dp_push_queue *q, const struct dp_push_file *const *files,
                      size_t n_files)
{
    struct dp_push_journal *j = &q->journal;
    struct dp_decode_error error = {""};
    struct dp_push_tags tags;
    struct dp_push_origin origin = {&tags, files[0]->kind};
    s->profile.fold = &s->options->fold;
    int err = dp_push_profile_read(&s->profile, q, files, n_files, &s->options->target, &error);
    if (err)
        return give_up(s, q, files, n_files, err, error.line);
    err = dp_push_tags_of_file(&tags, &s->options->tags, files[0]);
    while (!err && j->unit.n_files && j->unit.part < s->profile.parts.n && !dp_push_events_stopping() &&
           dp_clock_ns() >= s->not_before_ns) {
        struct dp_push_reply reply;
        err = dp_push_body_make(&s->body, &s->options->target, &s->profile, j->unit.part, dp_clock_wall_ns(), &origin);
        if (err)
            break;
        err = dp_push_http_send(s->http, &s->options->target, &s->body, record_sending, q, &reply);
        if (err == -EIO && *reply.why) {
            dp_push_say("%s", reply.why);
            pause_after(s, 0);
        }
        err = err ? (err == -EIO && *reply.why ? 0 : err) : act_on_reply(s, q, files, n_files, &reply);
        err = err > 0 ? 0 : err;
    }
    dp_push_tags_fini(&tags);
    if (err == -ENOMEM)
        return give_up(s, q, files, n_files, err, NULL);
    s->n_shortages = 0;
    if (err || !j->unit.n_files) /* no unit is under way: this one was set aside */
        return err;
    return j->unit.part >= s->profile.parts.n ? settle_unit(q, DP_PUSH_ACCEPTED) : 0;
}

/* The files of the unit under way. 0: one does not exist any more. */
static size_t files_under_way(const struct dp_push_queue *q, const struct dp_push_file **files)
{
    const struct dp_push_unit *unit = &q->journal.unit;
    if (unit->n_files > DP_PUSH_MOST_FILES)
        return 0;
    for (uint32_t i = 0; i < unit->n_files; i++)
        if (!(files[i] = dp_push_queue_find(q, dp_strings_at(&unit->keys, i + 1))))
            return 0;
    return unit->n_files;
}

/*
 * Puts all files that broken lines of the journal may have settled in doubt; with --repeat they stay pending, and are
 * sent again. 1: some were settled; 0: none; or a negative errno.
 */
static int settle_broken_lines(struct dp_push_sender *s, struct dp_push_queue *q)
{
    struct dp_push_journal *j = &q->journal;
    size_t n = 0;
    int err = 0;
    while (!s->options->repeats && err >= 0 && (j->unit.n_files || j->aside.n)) {
        err = j->unit.n_files ? 0 : dp_push_journal_again(j, 0);
        n += j->unit.n_files;
        err = err ? err : settle_unit(q, DP_PUSH_DOUBT);
    }
    for (size_t i = 0; i < q->files.n && err >= 0 && !s->options->repeats; i++) {
        const struct dp_push_file *file = &q->files.at[i];
        char key[DP_PUSH_KEY_BYTES];
        const char *keys[] = {key};
        if (file->is_settled || file->mtime_ns > j->broken_ns)
            continue;
        n++;
        dp_push_journal_key(key, file->stamp, file->name);
        err = dp_push_journal_begin(j, keys, 1);
        err = err ? err : settle_unit(q, DP_PUSH_DOUBT);
    }
    if (err < 0)
        return err;
    dp_push_say("%s/%s: %zu lines are broken; %zu files were perhaps delivered to %s, %s", q->path, j->name,
                j->n_broken, n, s->options->target.address,
                s->options->repeats ? "the files that it does not list are sent again" : "not sent again");
    err = dp_push_journal_mended(j);
    return err ? err : n > 0;
}

int dp_push_send_next(struct dp_push_sender *s, struct dp_push_queue *q)
{
    struct dp_push_journal *j = &q->journal;
    const struct dp_push_file *files[DP_PUSH_MOST_FILES + 1];
    size_t n_files = 0;
    int err = 0;
    if (dp_clock_ns() < s->not_before_ns)
        return 0;
    if (j->n_broken && (err = settle_broken_lines(s, q)))
        return err;
    if (j->unit.n_files && j->unit.is_sent) { /* a pusher before this one was killed */
        if (!s->options->repeats)
            dp_push_say("%s: perhaps delivered to %s before the last pusher was killed, not sent again", unit_name(q),
                        s->options->target.address);
        err = s->options->repeats ? dp_push_journal_back(j) : dp_push_journal_part(j, DP_PUSH_DOUBT);
        if (err)
            return err;
    }
    const struct dp_push_file *first = j->unit.n_files ? NULL : dp_push_queue_first(q);
    if (!first && !j->unit.n_files) {
        int due = dp_push_journal_due(j, dp_clock_wall_ns(), aside_for(s));
        if (due < 0 || (err = dp_push_journal_again(j, due)))
            return err;
    }
    if (!first) {
        n_files = files_under_way(q, files);
        return n_files ? send_parts(s, q, files, n_files) : lose_missing(q);
    }
    n_files = dp_push_queue_unit(q, first, files, s->n_single ? 1 : s->options->target.limits.n_files);
    s->n_single -= s->n_single > 0;
    char keys[DP_PUSH_MOST_FILES][DP_PUSH_KEY_BYTES];
    const char *names[DP_PUSH_MOST_FILES];
    for (size_t i = 0; i < n_files; i++) {
        dp_push_journal_key(keys[i], files[i]->stamp, files[i]->name);
        names[i] = keys[i];
    }
    err = dp_push_journal_begin(j, names, n_files);
    return err ? err : send_parts(s, q, files, n_files);
}

void dp_push_send_fini(struct dp_push_sender *s)
{
    dp_push_http_free(s->http);
    free_scratch(s);
}
