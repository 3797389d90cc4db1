/* SPDX-License-Identifier: MIT */
/*
 * host/agent/tick.c - performs a tick: writes a profile of each kind to a file.
 *
 * One lock is held for the whole tick, by the agent or by the thread that calls deltaprof_emit. No other code waits for
 * it, and fork does not either: a child unlocks it and drops its parent's tick.
 *
 * A crash inside a tick. The handler runs in the thread that holds the lock and never returns to the tick, so it goes
 * on as the owner. It leaves the profile that was under way alone: its consumer may be locked, or half committed. That
 * profile is lost, and a line says so. All else can be used at any moment: the other consumers are not changed
 * meanwhile, a write takes other buffers than the interrupted one, and of `files` the number that says that the
 * directory is open is stored after its descriptor. If the thread was naming functions, it holds the lock of the names,
 * which is only tried: then the others are lost, too. If a module's library crashed, none is: no state was changing.
 */
#include "host/agent/tick.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "host/cpu/shared_signal.h"
#include "host/cpu/watch.h"
#include "host/wall/watch.h"
#include "base/process.h"
#include "base/quiet.h"
#include "base/stats.h"
#include "host/heap/heap.h"
#include "host/heap/peak.h"
#include "host/heap/peak_copy.h"
#include "host/locks/wait.h"
#include "host/report/event_profile.h"
#include "host/shared/table_file.h"
#include "host/report/kind_source.h"
#include "host/report/profile.h"
#include "host/agent/event_file.h"
#include "host/agent/profile_file.h"
#include "host/agent/onstack.h"
#include "host/agent/summary.h"
#include "host/symbols/symbols_lock.h"
#include "host/symbols/symbol.h"
#include "host/thread/thread.h"
#include "host/unwind/unwind.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { NOTHING };
enum { PEAK_LEAST_BYTES = 64 << 10, PEAK_LEAST_SAMPLES = 4 }; /* a peak that is worth a tick of its own */

/* Sums that differ at two ticks if anything was recorded or freed between them. */
struct standing {
    uint64_t n_samples;
    int64_t n_live, in_use_bytes;
};

static struct {
    struct dp_lock lock;
    int64_t keep;
    _Atomic bool has_sink, has_failed;
    bool forked, ready; /* this process was forked; `files` is set up for it */
    struct dp_consumer *consumers[DP_KIND_DELTAS];
    struct dp_symbols_files names;             /* open during a tick: its profiles have most functions in common */
    bool has_file[DP_KIND_DELTAS];             /* this process wrote a file of the kind */
    _Atomic uint64_t n_files;                  /* relaxed: only for the summary */
    _Atomic bool is_last, is_exit, in_handler; /* relaxed: set by the thread that waits for the tick */
    unsigned under_way;                        /* 1 + the kind that is being written, or NOTHING */
    struct standing told; /* at the last tick that was an exit's and was written whole; zero: none */
    struct standing last; /* when the last tick of the process began; zero: there was none */
    _Atomic int64_t covered_ns[DP_KIND_DELTAS], highest; /* highest: sampled bytes in use then; relaxed: numbers */
} tick;
static DP_LARGE _Alignas(DP_PAGE_LEAST) struct { /* in one page */
    char out[DP_CONFIG_TEXT];                    /* `out` as configured */
    struct dp_agent_files files;
    char made[sizeof(((struct dp_agent_files *)0)->dir)]; /* the directory that was created or found at start */
} paths;
static struct dp_log_cause cause, unwind_cause;

bool dp_agent_tick_has_sink(void)
{
    return dp_load_relaxed(&tick.has_sink);
}

uint64_t dp_agent_tick_files(void)
{
    return dp_load_relaxed(&tick.n_files);
}

void dp_agent_tick_set_last(bool is)
{
    dp_store_relaxed(&tick.is_last, is);
}

void dp_agent_tick_set_exit(bool is)
{
    dp_store_relaxed(&tick.is_exit, is);
}

bool dp_agent_tick_is_delivered(void)
{
    return !dp_load_relaxed(&tick.has_failed);
}

int64_t dp_agent_tick_highest(void)
{
    return dp_load_relaxed(&tick.highest);
}

int64_t dp_agent_tick_covered_ns(unsigned kind)
{
    return dp_load_relaxed(&tick.covered_ns[kind]);
}

DP_IN_CHILD static void covered(int64_t now_ns)
{
    for (unsigned kind = 0; kind < DP_KIND_DELTAS; kind++)
        dp_store_relaxed(&tick.covered_ns[kind], now_ns);
}

void dp_agent_tick_set_in_handler(bool is)
{
    dp_store_relaxed(&tick.in_handler, is);
}

const char *dp_agent_tick_directory(void)
{
    return paths.files.dir;
}

void dp_agent_tick_note_no_sample(const char *text)
{
    if (dp_agent_tick_has_sink() && tick.ready)
        dp_agent_files_note_no_sample(&paths.files, text);
}

/* Sets up `files`, once per process: the directory's name may contain the pid. */
static int ready(void)
{
    if (tick.ready)
        return 0;
    char program[DP_PROGRAM_TEXT];
    dp_process_program(program);
    int err = dp_agent_files_init(&paths.files, paths.out, program, dp_process_pid(), tick.keep);
    paths.files.forked = tick.forked;
    /* Created once: if the directory vanishes later, that is an error, and it is not created again. A forked child's
     * name may contain its own pid. */
    if (err == 0 && strcmp(paths.made, paths.files.dir) != 0) {
        err = dp_agent_files_make_directory(&paths.files);
        if (err == 0)
            strcpy(paths.made, paths.files.dir);
    }
    tick.ready = err == 0;
    return err;
}

const char *dp_agent_tick_lost_words(void)
{
    return dp_shared_file_is_own() ? "stay in the tables, for deltaprof recover" : "are lost";
}

static void log_result(int err)
{
    bool lost = dp_load_relaxed(&tick.is_last);
    if (err && lost)
        dp_store_relaxed(&cause.last, 0); /* logged again: no tick follows that writes the pending profiles */
    if (err)
        dp_log_once(&cause, -err, "cannot write profiles in %s as uid %u: %m%s; they %s", paths.files.dir,
                    (unsigned)geteuid(), err == -EACCES ? " (chmod 1777 lets it)" : "",
                    !lost ? "stay pending" : dp_agent_tick_lost_words());
    else
        dp_log_once(&cause, 0, "profiles are written in %s again", paths.files.dir);
}

void dp_agent_tick_init(const struct dp_config *conf)
{
    dp_lock_lock(&tick.lock);
    strcpy(paths.out, conf->out);
    tick.keep = conf->keep;
    dp_store_relaxed(&tick.has_sink, conf->out[0] != '\0');
    dp_agent_events_sink_init(conf);
    dp_mem_keep_back(conf->out[0] ? (size_t)conf->memory / 8 : 0);
    tick.ready = false;
    covered(dp_clock_ns());
    int err = conf->out[0] ? ready() : 0;
    if (err)
        log_result(err);
    dp_lock_unlock(&tick.lock);
}

enum { TRY_KNOWN = 1 << 16 }; /* an extra flag: write first with known names only, then with all */

static int write_file(struct dp_consumer *consumer, struct dp_agent_file *file, unsigned flags, int64_t deadline_ns,
                      size_t *n_missed)
{
    struct dp_profile_info info = {0};
    int err;
    do {
        err = dp_consumer_write(consumer, flags, dp_agent_file_write, file, &info);
        if (err < 0)
            dp_agent_file_drop(file);
    } while (err == -EAGAIN && dp_symbols_lock_await(deadline_ns));
    *n_missed = info.n_missed;
    if (err >= 0 && info.inuse_bytes >= 0)
        dp_agent_summary_tick(info.inuse_bytes, info.to_ns);
    return err;
}

/* deadline_ns: until then a write with DP_WRITE_NO_WAIT is repeated while another thread holds the symbols lock. */
static int write_kind(unsigned kind, unsigned flags, int64_t deadline_ns)
{
    if (!tick.consumers[kind] && dp_kind_source_is_empty(kind) &&
        (flags & DP_WRITE_NO_WAIT || !dp_kind_source_is_stuck(kind)))
        return 0; /* no consumer is made, and no memory used */
    if (!tick.consumers[kind])
        tick.consumers[kind] = dp_consumer_new(kind, NULL);
    struct dp_consumer *consumer = tick.consumers[kind];
    if (!consumer)
        return -ENOMEM;
    dp_consumer_share_files(consumer, &tick.names);
    struct dp_agent_file file = {.files = &paths.files, .kind = kind};
    size_t n_missed = 0;
    if (dp_load_relaxed(&tick.is_last) && !(flags & DP_WRITE_AT_PEAK))
        flags |= DP_WRITE_ENDED;
    /* The last file of a kind with levels is written even without changes: it must say that the process ended. */
    if (!(flags & (DP_WRITE_ENDED | DP_WRITE_EXIT) && dp_kind_has_levels(kind) && tick.has_file[kind]))
        flags |= DP_WRITE_SKIP_EMPTY;
    int err = write_file(consumer, &file, flags & TRY_KNOWN ? flags | DP_WRITE_NO_WAIT : flags, deadline_ns, &n_missed);
    if (flags & TRY_KNOWN && n_missed && dp_symbols_can_ask(dp_consumer_symbolize(consumer))) {
        dp_agent_file_drop(&file);
        if (err == 0)
            dp_consumer_abandon(consumer);
        err = write_file(consumer, &file, flags & ~(unsigned)TRY_KNOWN, deadline_ns, &n_missed);
    }
    if (err < 0)
        return err;
    if (err == 0) {
        dp_consumer_baseline_keep(consumer, paths.files.next);
        if (dp_shared_file_is_mapped()) {
            dp_shared_file_header()->pid_scope = paths.files.stamp.pid_scope;
            dp_shared_file_header()->process = paths.files.stamp.process;
        }
        err = dp_agent_file_keep(&file);
    }
    if (err < 0) {
        dp_consumer_abandon(consumer);
        return err;
    }
    if (err == 0) {
        dp_consumer_baseline_kept(consumer);
        dp_consumer_commit(consumer);
        tick.has_file[kind] = true;
    }
    return 0;
}

static struct standing standing(void)
{
    return (struct standing){dp_stats_read(DP_STAT_SAMPLES), dp_tally_read(DP_TALLY_LIVE), dp_heap_peak_in_use()};
}

uint64_t dp_agent_tick_late_samples(void)
{
    struct standing now = standing();
    bool is_same = now.n_live == tick.last.n_live && now.in_use_bytes == tick.last.in_use_bytes;
    return !tick.last.n_samples || is_same ? 0 : now.n_samples - tick.last.n_samples;
}

/* Notes what is written next. False: a crash left it in an unknown state. */
static bool is_next(unsigned what, unsigned crashed)
{
    tick.under_way = what;
    dp_fence_signal();
    return what != crashed;
}

/*
 * Writes a tick of its own for a peak that no tick has shown: what was in use then, with the allocations since the last
 * tick. So a burst that is over within a moment is seen.
 */
static void write_peak(unsigned flags, int64_t deadline_ns, unsigned crashed, int64_t in_use_bytes)
{
    int64_t wall_ns, peak_bytes = dp_heap_peak_copy_bytes(&wall_ns), shown_bytes = dp_load_relaxed(&tick.highest);
    int64_t least = dp_heap_rate() * PEAK_LEAST_SAMPLES;
    shown_bytes = in_use_bytes > shown_bytes ? in_use_bytes : shown_bytes;
    least = least > PEAK_LEAST_BYTES ? least : PEAK_LEAST_BYTES;
    least = least > shown_bytes / 10 ? least : shown_bytes / 10;
    if (peak_bytes - shown_bytes < least || !is_next(DP_KIND_HEAP + 1, crashed))
        return;
    flags = (flags & ~(unsigned)(DP_WRITE_EXIT | DP_WRITE_RESIDENT)) | DP_WRITE_PEAK | DP_WRITE_AT_PEAK;
    if (write_kind(DP_KIND_HEAP, flags, deadline_ns))
        return; /* its allocations stay pending: they come with the tick itself */
    unsigned n_kept = dp_agent_files_end(&paths.files);
    dp_add_relaxed(&tick.n_files, n_kept);
    if (n_kept)
        dp_store_relaxed(&tick.highest, peak_bytes);
}

/* Under the lock. crashed: what is left alone. */
static int write_all(unsigned flags, int64_t deadline_ns, unsigned crashed)
{
    sigset_t before;
    struct standing now = standing();
    bool is_peak = now.in_use_bytes > dp_load_relaxed(&tick.highest), is_exit = dp_load_relaxed(&tick.is_exit);
    if (!dp_agent_tick_has_sink()) /* a start without `out` had the lock before */
        return 0;
    if (dp_load_relaxed(&tick.is_last))
        tick.last = now;
    if (dp_load_relaxed(&tick.is_last) && tick.told.n_samples && !memcmp(&now, &tick.told, sizeof now))
        return 0; /* the destructors changed nothing: the tick before them was the last */
    dp_quiet_begin(&before);
    bool blocked = dp_cpu_own_work_begin();
    int err = ready();
    if (is_exit)
        flags |= DP_WRITE_EXIT;
    if (tick.ready)
        write_peak(flags, deadline_ns, crashed, now.in_use_bytes);
    is_peak = is_peak && now.in_use_bytes > dp_load_relaxed(&tick.highest);
    for (unsigned kind = 0; tick.ready && kind < DP_KIND_DELTAS; kind++) {
        bool marks_peak = is_peak && dp_kind_has_levels(kind);
        int64_t begin_ns = dp_clock_ns();
        if (!is_next(kind + 1, crashed))
            continue;
        int failed = write_kind(kind, marks_peak ? flags | DP_WRITE_PEAK : flags, deadline_ns);
        if (!failed)
            dp_store_relaxed(&tick.covered_ns[kind], begin_ns);
        if (marks_peak && !failed)
            dp_store_relaxed(&tick.highest, now.in_use_bytes);
        if (failed)
            dp_stats_add(DP_STAT_WRITE_ERRORS, 1);
        if (!err)
            err = failed;
    }
    bool has_events = tick.ready && is_next(DP_KIND_EVENTS + 1, crashed);
    unsigned of_events = flags & TRY_KNOWN ? DP_WRITE_NO_WAIT : flags;
    int failed = has_events ? dp_agent_events_sink_write(&paths.files, &tick.names, of_events, deadline_ns) : 0;
    tick.under_way = NOTHING;
    if (!(flags & DP_WRITE_NO_WAIT))
        dp_symbols_close(&tick.names);
    if (failed)
        dp_stats_add(DP_STAT_WRITE_ERRORS, 1);
    if (!err)
        err = failed;
    unsigned n_kept = tick.ready ? dp_agent_files_end(&paths.files) : 0;
    dp_add_relaxed(&tick.n_files, n_kept);
    dp_cpu_own_work_end(blocked);
    dp_quiet_end(&before);
    tick.told = is_exit && !err ? standing() : (struct standing){0};
    if (tick.told.n_samples)
        tick.told.n_samples = now.n_samples; /* the loader may have freed blocks of its own when modules were opened */
    if (n_kept)
        dp_stats_add(DP_STAT_TICKS, 1);
    if (err || n_kept)
        log_result(err);
    dp_store_relaxed(&tick.has_failed, err != 0);
    return err;
}

static void settle(bool all)
{
    dp_cpu_settle(all);
    dp_wall_settle(all);
}

/* False: nothing to write. A forked child writes nothing before its first sample. */
static bool has_work(void)
{
    if (!dp_agent_tick_has_sink())
        return false;
    dp_wait_count_under_way();                                   /* a program may do nothing but wait */
    if (!dp_load_relaxed(&tick.is_last) || !tick.told.n_samples) /* CPU time of the tick before it is no work */
        settle(dp_load_relaxed(&tick.is_last) || dp_load_relaxed(&tick.is_exit));
    return dp_stats_read(DP_STAT_SAMPLES);
}

static void log_no_tables(void)
{
    const char *directory, *what;
    int err = dp_shared_file_failure(&directory, &what);
    errno = -err;
    if (what)
        dp_log(DP_LOG_INFO, "tables=%s: cannot %s: %m; the tables are private memory", directory, what);
}

static int do_tick(unsigned flags, int64_t deadline_ns)
{
    if (dp_load_relaxed(&tick.in_handler))
        return dp_agent_tick_last(deadline_ns);
    if (dp_unwind_wants_module() && !dp_symbols_loader_unusable()) {
        int err = dp_unwind_load_module();
        if (err)
            dp_log_once(&unwind_cause, -err, "libunwind cannot be used: %m; stacks that need it are cut short");
    }
    log_no_tables();
    if (!has_work()) {
        covered(dp_clock_ns());
        return 0;
    }
    if (!dp_lock_lock_until(&tick.lock, deadline_ns))
        return -EBUSY;
    /* It costs more than the rest of the tick of a short-lived worker, whose memory is about to be given back. */
    int err = write_all(flags & TRY_KNOWN ? flags : flags | DP_WRITE_RESIDENT, 0, NOTHING);
    dp_lock_unlock(&tick.lock);
    return err;
}

static int do_tick_hidden(unsigned flags, int64_t deadline_ns)
{
    bool reported = dp_thread_report_begin(); /* the caller may be a thread of the program */
    int err = do_tick(flags, deadline_ns);
    dp_thread_report_end(reported);
    return err;
}

int dp_agent_tick(int64_t deadline_ns)
{
    return do_tick_hidden(0, deadline_ns);
}

int dp_agent_tick_known(int64_t deadline_ns)
{
    return do_tick_hidden(TRY_KNOWN, deadline_ns);
}

struct last {
    int64_t deadline_ns;
    unsigned crashed;
    int err;
};

static void write_last(void *arg)
{
    struct last *last = arg;
    last->err = write_all(DP_WRITE_NO_WAIT, last->deadline_ns, last->crashed);
}

bool dp_agent_tick_is_mine(void)
{
    return dp_lock_is_mine(&tick.lock);
}

static int write_on_stack(int64_t deadline_ns, unsigned crashed)
{
    static DP_LARGE char stack[64 << 10]; /* a crash handler's stack may be 8k; a report needs 28k */
    struct last last = {deadline_ns, crashed, 0};
    dp_agent_call_on_stack(stack, sizeof stack, write_last, &last);
    return last.err;
}

int dp_agent_tick_last(int64_t deadline_ns)
{
    if (!has_work())
        return 0;
    if (!dp_lock_lock_until(&tick.lock, deadline_ns))
        return -EBUSY;
    int err = write_on_stack(deadline_ns, NOTHING);
    dp_lock_unlock(&tick.lock);
    return err;
}

/* The lock stays locked. */
int dp_agent_tick_crashed(int64_t deadline_ns)
{
    unsigned what = tick.under_way, crashed = dp_symbols_unlock_crashed() ? NOTHING : what;
    if (!crashed && what && what <= DP_KIND_DELTAS)
        dp_consumer_unlock_crashed(tick.consumers[what - 1]);
    if (crashed != NOTHING)
        dp_log(DP_LOG_ERROR, "the program crashed while a profile was written in %s; the last one of kind %s is lost",
               paths.files.dir, dp_kind_table[crashed - 1].name);
    return write_on_stack(deadline_ns, crashed);
}

DP_IN_CHILD void dp_agent_tick_fork_child(void)
{
    dp_lock_reset(&tick.lock);
    tick.under_way = NOTHING;
    tick.ready = false;
    tick.forked = true;
    dp_report_events_fork_child();
    memset(tick.consumers, 0, sizeof tick.consumers);
    memset(&tick.names, 0, sizeof tick.names);
    memset(tick.has_file, 0, sizeof tick.has_file);
    dp_agent_summary_fork_child();
    dp_store_relaxed(&tick.n_files, 0);
    dp_store_relaxed(&tick.has_failed, false);
    dp_store_relaxed(&tick.is_last, false);
    dp_store_relaxed(&tick.is_exit, false);
    tick.told = tick.last = (struct standing){0};
    dp_store_relaxed(&tick.highest, 0);
    covered(dp_clock_coarse_ns());
    dp_store_relaxed(&tick.in_handler, false);
    dp_store_relaxed(&cause.last, 0);
}
