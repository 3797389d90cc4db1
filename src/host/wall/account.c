/* SPDX-License-Identifier: MIT */
/*
 * host/wall/account.c - divides the time of a thread since its last account among states. The rows of a thread sum to
 * its life.
 *
 * The kernel has two clocks of a thread: its CPU time, and its time in queues of processors. The rest of its life it
 * was off the processor. The hooks of locks know which part of that were waits for locks; for the other part, looks
 * (watch.c) see where the thread is.
 *
 *     life = running + runnable + off            each to the nanosecond
 *     off  = lock + (io, sleep, fault, unknown)
 *
 * A wait for a lock ends when the waiter runs again, so its time contains time in a queue, which must not count twice.
 * So waits get the part of `off` that they are of off + runnable. If no look has seen the thread at another place, they
 * get their whole time, up to `off`.
 *
 * The rest of `off` goes to the place that the next look sees. A look at a running thread sees no place; the time then
 * waits for a later look (unplaced_ns). So each place gets on average the time that the thread spent there. A report
 * does not wait: the rest goes to the last place.
 *
 * The kernel adds time in a queue to its clock when the thread leaves the queue. An account before that counts the time
 * as `off`, and may add it to the lock whose wait has just ended, or to the last place. When the clock has the time,
 * rows of other states already have some of it (early_ns). That part counts as runnable as soon as the thread was off
 * the processor for as long elsewhere; if the thread ends before, it stays in the other rows. So rows never have more
 * than the life.
 *
 * Clocks are read one after the other, so a thread may seem to have more CPU time than time has passed, by
 * microseconds. Then `off` is negative, and is subtracted from the next account.
 */
#include "base/clock.h"
#include "host/cpu/timers.h"
#include "host/locks/futex_class.h"
#include "host/table/event_ring.h"
#include "host/table/record.h"
#include "host/wall/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SOON_NS  INT64_C(200000)   /* clocks read within this time count as read together */
#define LATE_NS  INT64_C(30000000) /* a CPU sample that is two periods and this late does not come */
#define SLACK_NS INT64_C(10000000) /* time without a place, around a wait, that counts to the wait */

enum { TEXT_BYTES = 96, READS_MAX = 3 };

/* ---- clocks ----------------------------------------------------------------------------------------------------- */

int64_t dp_wall_queue_ns(int fd)
{
    char text[TEXT_BYTES];
    int saved = errno;
    long n = syscall(SYS_pread64, fd, text, sizeof text, 0L);
    int64_t fields[2] = {0, -1};
    errno = saved;
    for (long at = 0, field = 0; at < n && field < 2; at++) {
        if (text[at] < '0' || text[at] > '9') {
            field++;
            continue;
        }
        fields[field] = (fields[field] < 0 ? 0 : fields[field]) * 10 + (text[at] - '0');
    }
    return fields[1];
}

static size_t add_text(char *to, size_t at, const char *text)
{
    while (*text)
        to[at++] = *text++;
    return at;
}

static int64_t queue_ns_of(int32_t tid)
{
    char path[64], digits[12];
    size_t at = add_text(path, 0, "/proc/self/task/"), n = 0;
    int saved = errno;
    for (uint32_t left = (uint32_t)tid; left || !n; left /= 10)
        digits[n++] = (char)('0' + left % 10);
    while (n)
        path[at++] = digits[--n];
    path[add_text(path, at, "/schedstat")] = '\0';
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    int64_t ns = fd < 0 ? -1 : dp_wall_queue_ns(fd);
    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = saved;
    return ns;
}

struct dp_wall_clocks dp_wall_clocks_read(int32_t tid, bool begins)
{
    struct dp_wall_clocks clocks = {.now_ns = 0};
    for (int i = 0; i < READS_MAX; i++) { /* again, if this thread was preempted meanwhile */
        int64_t before_ns = dp_clock_ns();
        clocks.clock_ns = dp_cpu_clock_ns(tid);
        clocks.queue_ns = queue_ns_of(tid);
        clocks.now_ns = dp_clock_ns();
        int64_t took_ns = clocks.now_ns - before_ns;
        if (begins)
            clocks.now_ns = before_ns;
        if (took_ns < SOON_NS)
            break;
    }
    return clocks;
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

uint32_t dp_wall_record(uint32_t labels, enum dp_wall_state state, const struct dp_stack *stack)
{
    dp_record_id id;
    uint32_t of_set = dp_labels_of_set(labels) << DP_LABELS_LOCK_BITS;
    return dp_record_intern(DP_KIND_WALL, of_set | (uint32_t)state, stack, &id) ? id : 0;
}

uint32_t dp_wall_record_synthetic(uint32_t labels, enum dp_wall_state state, dp_frame_id frame)
{
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    return dp_wall_record(labels, state, &stack);
}

/* The record with the stack of another record, in this state. */
static uint32_t copy_record(unsigned kind, dp_record_id id, enum dp_wall_state state)
{
    const struct dp_record *record = dp_table_record(kind, id);
    const dp_frame_id *frames = dp_table_frames(record);
    struct dp_stack stack = {
        .hash = dp_stack_hash(frames, record->depth), .depth = record->depth, .cut = record->cut, .frames = frames};
    return dp_wall_record(record->labels, state, &stack);
}

/* Whether a wait for a lock is one for work, or for a thread that works. */
static bool is_idle(const struct dp_record *record)
{
    bool shown;
    unsigned kind = dp_futex_lock_of(DP_KIND_BLOCK, record, &shown);
    return kind == DP_LOCK_COND || kind == DP_LOCK_SEM || kind == DP_LOCK_JOIN || kind == DP_LOCK_PARK;
}

void dp_wall_record_add(uint32_t id, int64_t n, int64_t ns)
{
    if (n)
        dp_record_count(DP_KIND_WALL, id, n, ns);
    else if (ns) /* not a sample: a process without samples writes no profile */
        dp_table_add(DP_KIND_WALL, id, 0, ns);
}

/* The number of samples that a time counts as: one, and one more for each whole period. */
static int64_t count_samples(int64_t ns)
{
    int64_t period_ns = dp_load_relaxed(&dp_wall_now.period_ns);
    return 1 + (period_ns ? ns / period_ns : 0);
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

int64_t dp_wall_thread_credit(dp_wall_slot slot, int64_t clock_ns)
{
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    int64_t before = dp_load_relaxed(&t->run_ns);
    while (clock_ns > before)
        if (dp_cas_relaxed(&t->run_ns, &before, clock_ns))
            return clock_ns - before;
    return 0;
}

/* Records the CPU time since the last CPU sample, if no sample will: they are off or late, or the account ends. */
static void add_running(dp_wall_slot slot, const struct dp_wall_clocks *now, enum dp_wall_account_end end)
{
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    bool is_sampled = dp_cpu_is_on();
    int64_t rest_ns = now->clock_ns - dp_load_relaxed(&t->run_ns), period_ns = dp_load_relaxed(&dp_cpu_state.period_ns);
    if (is_sampled && end != DP_WALL_ENDS && rest_ns < 2 * period_ns + LATE_NS)
        return;
    int64_t ns = dp_wall_thread_credit(slot, now->clock_ns);
    dp_frame_id frame = is_sampled ? DP_FRAME_BETWEEN : DP_FRAME_NOT_WALKED;
    if (ns)
        dp_wall_record_add(dp_wall_record_synthetic(t->labels, DP_WALL_RUNNING, frame), !is_sampled, ns);
}

/*
 * Adds time off the processor to a row, and as an event that ends at end_ns. Returns where the event begins: not before
 * the last account, so that events of a thread do not overlap.
 */
static int64_t add_with_event(dp_wall_slot slot, uint32_t id, int64_t ns, int64_t end_ns)
{
    int64_t left_ns = end_ns - dp_wall_thread_at(slot)->until_ns, duration_ns = ns < left_ns ? ns : left_ns;
    if (duration_ns < 0)
        duration_ns = 0;
    dp_wall_record_add(id, count_samples(ns), ns);
    dp_events_add_of(dp_wall_thread_tid(slot), DP_KIND_WALL, id, count_samples(ns), ns, end_ns, duration_ns);
    return end_ns - duration_ns;
}

/* Records time in a queue, at the place of the last CPU sample: where the thread runs. */
static void add_runnable(dp_wall_slot slot, int64_t ns, int64_t end_ns)
{
    const struct dp_wall_thread *t = dp_wall_thread_at(slot);
    uint32_t ran = dp_load_relaxed(&t->ran);
    if (ns > 0)
        add_with_event(slot,
                       ran ? copy_record(DP_KIND_WALL, ran, DP_WALL_RUNNABLE)
                           : dp_wall_record_synthetic(t->labels, DP_WALL_RUNNABLE, DP_FRAME_NOT_WALKED),
                       ns, end_ns);
}

/* The waits for locks since the last account. */
struct waits {
    struct {
        dp_record_id record;
        int64_t ns;
    } at[DP_WALL_WAITS + 1];
    unsigned n;
    int64_t ns; /* their sum */
};

static void append_wait(struct waits *waits, dp_record_id record, int64_t ns)
{
    if (ns <= 0)
        return;
    waits->at[waits->n].record = record;
    waits->at[waits->n++].ns = ns;
    waits->ns += ns;
}

static void collect_waits(struct dp_wall_thread *t, int64_t now_ns, struct waits *waits)
{
    waits->n = 0;
    waits->ns = 0;
    if (t->wait.begin_ns) /* first: if it has ended since, `waits` below have the rest */
        append_wait(waits, t->wait.record, dp_waiting_collect(&t->wait, now_ns));
    for (unsigned i = 0; i < DP_WALL_WAITS; i++) {
        int64_t ns = dp_load_relaxed(&t->waits[i].ns) ? dp_swap_acq_rel(&t->waits[i].ns, 0) : 0; /* [WAITED] */
        if (ns > 0)
            append_wait(waits, dp_load_relaxed(&t->waits[i].record) - 1, ns);
    }
}

/* part/all of ns, without overflow. */
static int64_t divide_time(int64_t ns, int64_t part, int64_t all)
{
    return (int64_t)((__int128)ns * part / all);
}

/*
 * Adds the part of off_ns that the thread waited for locks to the rows of its waits. alone: no other place is known.
 * Returns that part; *last: the row of the last wait.
 */
static int64_t add_waits(const struct waits *waits, int64_t off_ns, int64_t queue_ns, bool alone, uint32_t *last)
{
    if (!waits->ns)
        return 0;
    int64_t all_ns = off_ns + queue_ns;
    bool is_all = waits->ns >= (alone ? off_ns : all_ns);
    int64_t lock_ns = is_all ? off_ns : alone ? waits->ns : divide_time(off_ns, waits->ns, all_ns), left_ns = lock_ns;
    for (unsigned i = 0; i < waits->n; i++) {
        bool is_last = i + 1 == waits->n;
        int64_t ns = is_last ? left_ns : divide_time(lock_ns, waits->at[i].ns, waits->ns);
        bool idle = is_idle(dp_table_record(DP_KIND_BLOCK, waits->at[i].record));
        *last = copy_record(DP_KIND_BLOCK, waits->at[i].record, idle ? DP_WALL_LOCK_IDLE : DP_WALL_LOCK);
        dp_wall_record_add(*last, count_samples(ns), ns);
        left_ns -= ns;
    }
    return lock_ns;
}

/* The row for time of which no look saw the place. lock: the row of a wait since the last account, or 0. */
static uint32_t choose_place(const struct dp_wall_thread *t, int64_t rest_ns, const struct waits *waits, uint32_t lock)
{
    bool is_around_waits = lock && (rest_ns <= SLACK_NS || rest_ns <= waits->ns / 8);
    return is_around_waits ? lock
           : t->where      ? t->where
                           : dp_wall_record_synthetic(t->labels, DP_WALL_UNKNOWN, DP_FRAME_STATE_UNKNOWN);
}

/*
 * Divides off_ns, time off the processor. place: the row of the place, 0: not known. *begin_ns: where the event of the
 * place begins. Returns what waits for a look.
 */
static int64_t add_off(dp_wall_slot slot, int64_t now_ns, int64_t off_ns, int64_t queue_ns, uint32_t place,
                       enum dp_wall_account_end end, int64_t *begin_ns)
{
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    struct waits waits;
    uint32_t lock = 0;
    collect_waits(t, now_ns, &waits);
    int64_t rest_ns = off_ns - add_waits(&waits, off_ns, queue_ns, !place && !t->where, &lock);
    if (!place && end != DP_WALL_GOES_ON)
        place = choose_place(t, rest_ns, &waits, lock);
    if (place && rest_ns)
        *begin_ns = add_with_event(slot, place, rest_ns, now_ns);
    return place ? 0 : rest_ns;
}

void dp_wall_account(dp_wall_slot slot, const struct dp_wall_clocks *now, uint32_t where, enum dp_wall_account_end end)
{
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    int64_t run_ns = now->clock_ns - t->clock_ns, queue_ns = 0;
    if (now->queue_ns >= 0 && t->queue_ns >= 0 && now->queue_ns > t->queue_ns)
        queue_ns = now->queue_ns - t->queue_ns;
    int64_t off_ns = t->unplaced_ns + (now->now_ns - t->until_ns) - run_ns - queue_ns, early_ns = 0;
    if (off_ns < 0)
        early_ns = queue_ns < -off_ns ? queue_ns : -off_ns;
    queue_ns -= early_ns;
    off_ns += early_ns;
    bool is_still = t->is_still && !run_ns;
    bool is_at_last_place = is_still && !t->wait.begin_ns;
    uint32_t place = where ? where : is_at_last_place ? t->where : 0;
    int64_t begin_ns = now->now_ns;
    add_running(slot, now, end);
    t->unplaced_ns = off_ns > 0 ? add_off(slot, now->now_ns, off_ns, queue_ns, place, end, &begin_ns) : off_ns;
    add_runnable(slot, queue_ns, begin_ns);
    t->until_ns = now->now_ns;
    t->clock_ns = now->clock_ns;
    t->queue_ns = now->queue_ns - early_ns;
    t->is_still = is_still;
    if (!is_still)
        t->next_look = 0;
    if (where)
        t->where = where;
}
