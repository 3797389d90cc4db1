/* SPDX-License-Identifier: MIT */
/*
 * push/send.c - sends a unit: records its start in the journal, sends it part by part, and records its outcome.
 *
 * States of a part, as the journal has them:
 *
 *     begun --send--> on its way --part ACCEPTED / REFUSED--> next part
 *       ^                 |  |
 *       +------back-------+  +--part DOUBT: no answer came, or this process was killed
 *
 * If an earlier pusher ended in the middle of a unit, its last part is settled first, and then the unit is continued.
 * With --repeat a part in doubt is sent again, under the same id. If lines of the journal are broken, all files that
 * those lines may have named are in doubt.
 */
#include "push/send.h"

#include "base/clock.h"
#include "push/events.h"
#include "push/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SECOND                INT64_C(1000000000)
#define LONGEST_PAUSE         (60 * SECOND)
#define LONGEST_RETRY_AFTER_S 600
/* After this many shortages of memory in a row, over several minutes, the files are too large for this process. */
#define MOST_SHORTAGES 10
/* If a receiver has answered 5xx to a unit for this long, the other units are sent first. */
#define LONGEST_FAILING (3600 * SECOND)

/*
 * Sets the time of the next request. The pause doubles with each failure in a row, from 0.25 s to a minute; a random
 * part of up to half of it is subtracted. If the receiver requested a longer pause, that one is used.
 */
static void pause_after(struct dp_push_sender *s, int64_t retry_after_s)
{
    unsigned doublings = s->n_failures < 8 ? s->n_failures : 8;
    int64_t pause = (SECOND / 4) << doublings;
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

/* How long a unit is tried before it is set aside; with --once at most half of --wait. */
static int64_t patience(const struct dp_push_sender *s)
{
    int64_t most = s->options->is_once ? s->options->wait_ns / 2 : LONGEST_FAILING;
    return most < LONGEST_FAILING ? most : LONGEST_FAILING;
}

/* Called before the last bytes of a part leave. */
static int leaving(void *queue)
{
    struct dp_push_queue *q = queue;
    return dp_push_journal_sending(&q->journal);
}

/* Settles the unit under way. */
static int finish(struct dp_push_queue *q, const struct dp_push_file *const *files, size_t n_files,
                  enum dp_push_outcome outcome)
{
    struct dp_push_journal *j = &q->journal;
    if (outcome == DP_PUSH_ACCEPTED)
        outcome = j->in_doubt ? DP_PUSH_DOUBT : j->is_refused ? DP_PUSH_REFUSED : DP_PUSH_ACCEPTED;
    int err = dp_push_journal_done(j, outcome);
    dp_push_queue_settled(q, files, n_files);
    return err ? err : 1;
}

/*
 * Sets the unit under way aside if the receiver has answered 5xx to it for too long, or does so again: the unit may be
 * the cause, as where a server fails on one profile. If the receiver itself fails, nothing is lost: the files are still
 * pending. A unit of which a part was settled stays: its other parts would be sent twice.
 */
static int set_aside(struct dp_push_sender *s, struct dp_push_queue *q, const struct dp_push_file *const *files,
                     size_t n_files, const struct dp_push_reply *reply)
{
    int64_t now = dp_clock_ns();
    if (reply->status < 500)
        q->failing_ns = 0;
    else if (!q->failing_ns)
        q->failing_ns = now;
    bool is_again = files[0]->aside_ns;
    if (!q->failing_ns || q->journal.part || (!is_again && now - q->failing_ns < patience(s)))
        return 0;
    int err = dp_push_journal_aside(&q->journal);
    if (err)
        return err;
    q->failing_ns = 0;
    if (!is_again)
        dp_push_say("%s/%s: set aside, since %s goes on answering with status %ld; others are sent before it", q->path,
                    files[0]->name, s->options->target.address, reply->status);
    dp_push_queue_aside(q, files, n_files, now);
    s->n_failures = 0; /* the others need not wait for long */
    pause_after(s, reply->retry_after_s);
    return 0;
}

/* Acts on an answer. 1: the part was settled; 0: it must be sent again; or a negative errno. */
static int obey(struct dp_push_sender *s, struct dp_push_queue *q, const struct dp_push_file *const *files,
                size_t n_files, const struct dp_push_reply *reply)
{
    const struct dp_push_file *file = files[0];
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
        return err ? err : set_aside(s, q, files, n_files, reply);
    case DP_PUSH_NEVER:
        dp_push_say("%s/%s: refused by %s: %s", q->path, file->name, s->options->target.address, reply->why);
        outcome = DP_PUSH_REFUSED;
        break;
    case DP_PUSH_UNKNOWN:
        dp_push_say("%s/%s: perhaps delivered to %s, not sent again: %s", q->path, file->name,
                    s->options->target.address, reply->why);
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

/* Acts on files that could not be read. Returns as send_parts does. */
static int give_up(struct dp_push_sender *s, struct dp_push_queue *q, const struct dp_push_file *const *files,
                   size_t n_files, int err, const char *why)
{
    if (err == -ENOENT || err == -ELOOP)
        return finish(q, files, n_files, DP_PUSH_GONE);
    if (err == -EBADMSG && may_grow(q, files[n_files - 1])) {
        pause_after(s, 0);
        return 0;
    }
    if (err == -ENOMEM && ++s->n_shortages < MOST_SHORTAGES) {
        dp_push_say("%s/%s: %s; trying again", q->path, files[0]->name, strerror(ENOMEM));
        free_scratch(s);
        pause_after(s, 0);
        return 0;
    }
    if (err != -EBADMSG && err != -EFBIG && err != -ENOMEM)
        return err;
    s->n_shortages = 0;
    dp_push_say("%s/%s: %s", q->path, files[0]->name, err == -EBADMSG ? why : strerror(-err));
    return finish(q, files, n_files, DP_PUSH_REFUSED);
}

/* Sends the parts that are left. 1: the unit was settled; 0: it must wait; or a negative errno. */
static int send_parts(struct dp_push_sender *s, struct dp_push_queue *q, const struct dp_push_file *const *files,
                      size_t n_files)
{
    struct dp_push_journal *j = &q->journal;
    struct dp_decode_error error = {""};
    struct dp_push_tags tags;
    struct dp_push_origin origin = {&tags, files[0]->kind};
    int err = dp_push_profile_read(&s->profile, q, files, n_files, &s->options->target, &error);
    if (err)
        return give_up(s, q, files, n_files, err, error.line);
    err = dp_push_tags_of_file(&tags, &s->options->tags, files[0]);
    while (!err && j->n_files && j->part < s->profile.parts.n && !dp_push_events_stopping() &&
           dp_clock_ns() >= s->not_before_ns) {
        struct dp_push_reply reply;
        err = dp_push_body_make(&s->body, &s->options->target, &s->profile, j->part, dp_clock_wall_ns(), &origin);
        if (err)
            break;
        err = dp_push_http_send(s->http, &s->options->target, &s->body, leaving, q, &reply);
        if (err == -EIO && *reply.why) {
            dp_push_say("%s", reply.why);
            pause_after(s, 0);
        }
        err = err ? (err == -EIO && *reply.why ? 0 : err) : obey(s, q, files, n_files, &reply);
        err = err > 0 ? 0 : err;
    }
    dp_push_tags_fini(&tags);
    if (err == -ENOMEM)
        return give_up(s, q, files, n_files, err, NULL);
    s->n_shortages = 0;
    if (err || !j->n_files) /* it was set aside */
        return err;
    return j->part >= s->profile.parts.n ? finish(q, files, n_files, DP_PUSH_ACCEPTED) : 0;
}

/* The files of the unit under way. 0: one does not exist any more. */
static size_t files_under_way(const struct dp_push_queue *q, const struct dp_push_file **files)
{
    const struct dp_push_journal *j = &q->journal;
    if (j->n_files > DP_PUSH_MOST_FILES)
        return 0;
    for (uint32_t i = 0; i < j->n_files; i++)
        if (!(files[i] = dp_push_queue_find(q, dp_strings_at(&j->unit, i + 1))))
            return 0;
    return j->n_files;
}

/*
 * Settles the files that broken lines of the journal may have settled; with --repeat they are left pending, to be sent
 * again. 1: some were; 0; or a negative errno.
 */
static int mend(struct dp_push_sender *s, struct dp_push_queue *q)
{
    struct dp_push_journal *j = &q->journal;
    const struct dp_push_file *files[DP_PUSH_MOST_FILES + 1];
    size_t n = 0;
    int err = 0;
    if (j->n_files && !s->options->repeats) {
        size_t n_files = files_under_way(q, files);
        n += j->n_files;
        err = finish(q, files, n_files, DP_PUSH_DOUBT);
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
        err = err ? err : finish(q, &file, 1, DP_PUSH_DOUBT);
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
    if (j->n_broken && (err = mend(s, q)))
        return err;
    if (j->n_files && j->is_sent) { /* a pusher before this one was killed */
        if (s->options->repeats)
            err = dp_push_journal_back(j);
        else
            err = dp_push_journal_part(j, DP_PUSH_DOUBT);
        if (err)
            return err;
        if (!s->options->repeats)
            dp_push_say("%s/%s: perhaps delivered to %s before the last pusher was killed, not sent again", q->path,
                        strchr(dp_strings_at(&j->unit, 1), ' ') + 1, s->options->target.address);
    }
    if (j->n_files) {
        n_files = files_under_way(q, files);
        if (!n_files)
            return finish(q, files, 0, j->in_doubt ? DP_PUSH_DOUBT : DP_PUSH_GONE);
        return send_parts(s, q, files, n_files);
    }
    const struct dp_push_file *first = dp_push_queue_first(q, dp_clock_ns() - patience(s));
    if (!first)
        return 0;
    n_files = dp_push_queue_unit(q, first, files, s->options->target.limits.n_files);
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
