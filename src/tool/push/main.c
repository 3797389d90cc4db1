/* SPDX-License-Identifier: MIT */
/*
 * tool/push/main.c - the program of `deltaprof push`: sends the profiles of directories to a database as they appear.
 *
 * It is not part of the program `deltaprof`, so that only it needs libcurl; no profiled process ever loads one of its
 * libraries. It takes one unit after the other from its directories, the oldest first within each.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "tool/push/wakeups.h"
#include "tool/push/push_options.h"
#include "tool/push/say.h"
#include "tool/push/send.h"
#include "tool/push/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND          INT64_C(1000000000)
#define MEMORY_BYTES    ((size_t)1 << 30)
#define RESCAN_NS       (15 * SECOND) /* finds files that inotify does not see: another machine writes them */
#define HURRY_NS        (10 * SECOND)
#define LONGEST_WAIT_NS SECOND /* to see the end of processes for which there is no pidfd */

struct push {
    struct dp_push_options options;
    struct dp_push_events events;
    struct dp_push_sender sender;
    struct dp_push_queue *queues;
    bool *is_open, *is_lost, *is_unread; /* is_lost: the directory was removed or replaced; is_unread: no scan ended */
    uint64_t before[DP_PUSH_N_OUTCOMES]; /* the counts of earlier pushers */
    uint64_t lost[DP_PUSH_N_OUTCOMES];   /* the counts of directories that were removed */
    size_t turn;                         /* the directory that sends first */
    int64_t scanned_ns;
};

/* Drops directories that are named twice. */
static void drop_repeated(struct dp_push_options *o)
{
    struct stat a, b;
    size_t n = 0;
    for (size_t i = 0; i < o->n_dirs; i++) {
        size_t k = 0;
        while (k < n && (stat(o->dirs[i], &a) || stat(o->dirs[k], &b) || a.st_dev != b.st_dev || a.st_ino != b.st_ino))
            k++;
        if (k == n)
            o->dirs[n++] = o->dirs[i];
    }
    o->n_dirs = n;
}

static void watch(struct push *p, size_t i)
{
    dp_push_events_watch(&p->events, p->options.dirs[i]);
    p->events.has_news = true; /* files that were there before the watch */
}

/* Opens the directories that are not open yet. False: none can be used, or one was refused for good. */
static bool open_queues(struct push *p)
{
    for (size_t i = 0; i < p->options.n_dirs; i++) {
        if (p->is_open[i])
            continue;
        int err = dp_push_queue_open(&p->queues[i], p->options.dirs[i], &p->options.target);
        p->is_open[i] = !err;
        for (int k = 0; k < DP_PUSH_N_OUTCOMES && !err; k++)
            p->before[k] += p->queues[i].journal.counts[k];
        if (!err)
            watch(p, i);
        else if (p->is_lost[i])
            continue; /* until it is made again */
        else if (err != -EWOULDBLOCK || !p->options.beside) {
            bool is_busy = err == -EWOULDBLOCK;
            const char *journal = is_busy ? "" : p->queues[i].journal.name; /* "": the directory cannot be opened */
            dp_push_say("%s%s%s: %s", p->options.dirs[i], *journal ? "/" : "", journal,
                        is_busy ? "another deltaprof push already sends these files to that receiver" : strerror(-err));
            return false;
        }
    }
    return true;
}

/* Gives up a directory that its path does not lead to any more. What waits in it counts as deleted. */
static void lose_queue(struct push *p, size_t i)
{
    struct dp_push_queue *q = &p->queues[i];
    dp_push_say("%s: removed or replaced, with %zu files that were not sent", q->path, q->n_pending);
    for (int k = 0; k < DP_PUSH_N_OUTCOMES; k++)
        p->lost[k] += q->journal.counts[k];
    p->lost[DP_PUSH_GONE] += q->n_pending;
    dp_push_queue_close(q);
    p->is_open[i] = p->is_unread[i] = false;
    p->is_lost[i] = true;
}

static size_t scan(struct push *p)
{
    size_t n_pending = 0;
    bool again = p->events.has_news || dp_clock_ns() - p->scanned_ns > RESCAN_NS;
    p->events.has_news = false;
    for (size_t i = 0; i < p->options.n_dirs; i++) {
        if (p->is_open[i] && again && !dp_push_queue_is_current(&p->queues[i]))
            lose_queue(p, i);
        if (!p->is_open[i])
            continue;
        struct dp_push_queue *q = &p->queues[i];
        int err = again ? dp_push_queue_scan(q) : 0;
        p->is_unread[i] = again ? err < 0 : p->is_unread[i];
        if (err)
            dp_push_say("%s: %s; trying again", q->path, strerror(-err));
        if (again && !err && q->n_failed)
            dp_push_say("%s: %zu profiles cannot be read: %s; trying again", q->path, q->n_failed,
                        strerror(-q->failure));
        if (again && !err && q->n_forbidden)
            dp_push_say("%s: %zu profiles of another user cannot be read", q->path, q->n_forbidden);
        p->events.has_news |= p->is_unread[i] || q->n_young > 0 || q->n_failed > 0;
        n_pending += p->is_unread[i] + q->n_young + q->n_failed + q->n_pending + q->journal.unit.n_files +
                     q->journal.aside.n + q->journal.n_broken;
    }
    if (again)
        p->scanned_ns = dp_clock_ns();
    return n_pending;
}

/* Sends one unit of each directory, first of the one whose turn it is. True: something was settled. */
static bool send_some(struct push *p)
{
    bool some = false;
    for (size_t k = 0, first = p->turn; k < p->options.n_dirs; k++) {
        size_t i = (first + k) % p->options.n_dirs;
        int64_t before_ns = p->sender.not_before_ns;
        int err = p->is_open[i] ? dp_push_send_next(&p->sender, &p->queues[i]) : 0;
        some |= err > 0;
        if (err < 0) {
            dp_push_say("%s: %s; trying again", p->options.dirs[i], strerror(-err));
            p->sender.not_before_ns = dp_clock_ns() + SECOND;
        }
        if (p->sender.not_before_ns != before_ns) /* it made all pause: the next one goes on first */
            p->turn = i + 1;
    }
    return some;
}

/* Whether a process lives that wrote files to the directory since the run began. */
static bool has_writer(struct push *p, const struct dp_push_queue *q)
{
    char pid[24];
    for (size_t i = 0; i < q->files.n; i++) {
        const struct dp_push_file *file = &q->files.at[i], *before = file - 1;
        size_t n_pid = file->n_process - file->n_program - 1;
        bool is_same = i && before->n_process == file->n_process && !memcmp(before->name, file->name, file->n_process);
        if (is_same || n_pid >= sizeof pid)
            continue;
        memcpy(pid, file->name + file->n_program + 1, n_pid);
        pid[n_pid] = 0;
        if (dp_push_events_writes(&p->events, pid))
            return true;
    }
    return false;
}

/* Whether no more files will come: at once with --once, else after the processes of a `run`. */
static bool is_last(struct push *p)
{
    if (p->options.is_once || !p->options.beside)
        return p->options.is_once;
    if (dp_push_events_lives(&p->events, p->options.beside))
        return false;
    for (size_t i = 0; i < p->options.n_dirs; i++)
        if (p->is_open[i] && has_writer(p, &p->queues[i]))
            return false;
    return true;
}

static bool has_lost(const struct push *p)
{
    bool lost = false;
    for (size_t i = 0; i < p->options.n_dirs; i++)
        lost |= !p->is_open[i] && p->is_lost[i];
    return lost;
}

static void loop(struct push *p)
{
    bool last = false;
    while (!dp_push_events_stopping()) {
        if (!open_queues(p))
            return;
        if (!last && is_last(p)) {
            last = true;
            p->events.has_news = true; /* one more scan, after the last process ended */
            p->sender.end_ns = dp_clock_ns() + p->options.wait_ns;
        }
        /* Service managers end all processes of a service at once, Kubernetes a pusher just after the program: the last
         * files are sent, but in a hurry. */
        bool must_end = dp_push_events_must_end();
        if (must_end && !last && !p->options.beside) {
            last = true;
            p->events.has_news = true;
            p->sender.end_ns = INT64_MAX;
        }
        if (must_end && last && p->sender.end_ns > dp_clock_ns() + HURRY_NS)
            p->sender.end_ns = dp_clock_ns() + HURRY_NS;
        size_t n_pending = scan(p);
        if (n_pending && send_some(p))
            continue;
        if (last && (!n_pending || dp_clock_ns() >= p->sender.end_ns))
            return;
        int64_t now = dp_clock_ns(), wait = p->options.beside || last ? LONGEST_WAIT_NS : RESCAN_NS;
        if (p->events.has_news || has_lost(p)) /* there are young files, or a directory may be made again */
            wait = LONGEST_WAIT_NS;
        bool is_paused = n_pending && p->sender.not_before_ns > now;
        if (is_paused && p->sender.not_before_ns - now < wait)
            wait = p->sender.not_before_ns - now;
        dp_push_events_wait(&p->events, wait, !is_paused);
    }
}

/* Returns the exit status; prints how many profiles did not arrive. */
static int sum_up(const struct push *p)
{
    uint64_t counts[DP_PUSH_N_OUTCOMES];
    size_t n_pending = 0, n_aside = 0;
    bool all_open = true;
    memcpy(counts, p->lost, sizeof counts);
    for (size_t i = 0; i < p->options.n_dirs; i++) {
        all_open &= (p->is_open[i] || p->is_lost[i]) && !p->is_unread[i];
        if (!p->is_open[i])
            continue;
        n_pending += p->queues[i].n_pending + p->queues[i].n_young + p->queues[i].n_failed + p->queues[i].n_forbidden;
        n_aside += p->queues[i].journal.aside.n;
        for (int k = 0; k < DP_PUSH_N_OUTCOMES; k++)
            counts[k] += p->queues[i].journal.counts[k];
    }
    for (int k = 0; k < DP_PUSH_N_OUTCOMES; k++)
        counts[k] -= p->before[k];
    if (counts[DP_PUSH_DOUBT] || counts[DP_PUSH_REFUSED] || counts[DP_PUSH_GONE] || n_pending)
        dp_push_say("%" PRIu64 " files accepted, %" PRIu64 " perhaps delivered, %" PRIu64 " refused, %" PRIu64
                    " deleted before they were sent, %zu waiting%s",
                    counts[DP_PUSH_ACCEPTED], counts[DP_PUSH_DOUBT], counts[DP_PUSH_REFUSED], counts[DP_PUSH_GONE],
                    n_pending, n_aside ? ", some of them set aside: see --status" : "");
    bool all_arrived = !counts[DP_PUSH_DOUBT] && !counts[DP_PUSH_REFUSED] && !counts[DP_PUSH_GONE];
    return all_open && all_arrived && (!n_pending || (!p->options.is_once && !p->options.beside)) ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct push p;
    char why[512];
    int status = dp_push_options_read(&p.options, argc, argv);
    if (status == 1 && (fflush(stdout) || ferror(stdout)))
        dp_push_say("standard output: %m");
    else if (status == 1)
        return 0;
    if (status)
        return status;
    dp_push_say_to(p.options.log_file);
    dp_mem_cap(MEMORY_BYTES);
    if (p.options.is_status)
        return dp_push_status(p.options.dirs, p.options.n_dirs);
    struct dp_push_http_options http = {.address = p.options.target.address,
                                        .token_file = p.options.token_file,
                                        .header_file = p.options.header_file,
                                        .ca_file = p.options.ca_file,
                                        .timeout_ns = p.options.timeout_ns};
    drop_repeated(&p.options);
    p.queues = calloc(p.options.n_dirs, sizeof *p.queues);
    p.is_open = calloc(p.options.n_dirs, sizeof *p.is_open);
    p.is_lost = calloc(p.options.n_dirs, sizeof *p.is_lost);
    p.is_unread = calloc(p.options.n_dirs, sizeof *p.is_unread);
    p.sender.options = &p.options;
    p.sender.http = dp_push_http_new(&http, why, sizeof why);
    int err = dp_push_events_open(&p.events, p.options.beside);
    if (!p.queues || !p.is_open || !p.is_lost || !p.is_unread || !p.sender.http || err) {
        dp_push_say("%s", !p.sender.http ? why : strerror(err ? -err : ENOMEM));
        return 1;
    }
    status = 1;
    if (open_queues(&p)) {
        loop(&p);
        status = sum_up(&p);
    }
    for (size_t i = 0; i < p.options.n_dirs; i++)
        if (p.is_open[i])
            dp_push_queue_close(&p.queues[i]);
    dp_push_send_fini(&p.sender);
    dp_push_events_close(&p.events);
    dp_push_tags_fini(&p.options.tags);
    free(p.queues);
    free(p.is_open);
    free(p.is_lost);
    free(p.is_unread);
    return status;
}
