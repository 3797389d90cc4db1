/* SPDX-License-Identifier: MIT */
/*
 * host/agent/agent.c - the background thread that writes profiles every `interval`.
 *
 * spawn.c creates it, and it is always guarded. If the kernel allows it, the thread has its own descriptor table and
 * working directory. The table starts empty: a copy of the host's table would keep sockets and pipes open that the host
 * closes. If not, the thread shares the host's table and uses high numbers there (profile_file.c).
 *
 * When it is created: pthread_create takes locks of the loader. A hook must not call it while another thread could hold
 * these locks and wait for a lock of the calling thread. The thread is therefore created
 *  - from deltaprof_start, deltaprof_set, and from the constructor if there are threads already or `listen` is set;
 *  - just before the host creates a thread: the host itself enters the loader there, with the same locks held;
 *  - after a sampled allocation, at the end of its outermost hook, if the process has one thread (deltaprof_poll). The
 *    process must be older than AGE_NS or have allocated AGE_BYTES: short programs need no thread.
 *
 * Peaks: the thread also ticks when clearly more is in use than at the highest tick (peaks.h).
 * Alarms: with `stuck` set, the thread also wakes when a wait may have lasted that long (host/locks/alarm.h). It then
 * runs without files to write, too.
 *
 * `wakes` is a futex that counts the calls of wake(). `asked` counts requests for a tick, `served` the requests that
 * finished ticks cover; a requesting thread waits until `served` has reached its number. [SERVED] `served` is stored
 * with release after a tick and loaded with acquire: the waiting thread then sees all that the tick wrote. [STATE]
 * RUNNING is published after the thread's handle, so that quiesce can join it.
 *
 *     NONE --start--> STARTING --> RUNNING --quiesce--> NONE      any --fork, in the child--> NONE
 *                     STARTING or RUNNING --alone--> NONE
 *
 * Progress: a stuck sink keeps the agent in its tick. No thread waits for that without a deadline, and fork does not
 * wait.
 */
#include "host/agent/agent.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/process.h"
#include "host/cpu/watch.h"
#include "host/wall/watch.h"
#include "host/thread/gate.h"
#include "host/heap/heap.h"
#include "host/agent/alone.h"
#include "host/agent/peaks.h"
#include "host/agent/signals.h"
#include "host/agent/spawn.h"
#include "host/agent/tick.h"
#include "host/thread/thread.h"
#include "host/locks/alarm.h"

#include <deltaprof/interpose.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NONE, STARTING, RUNNING };
enum { GO_ON, QUIT, QUITTING };
enum { LOOK_NS = 100000000, LOOK_RARELY_NS = 1000000000 };
enum { AGE_NS = 100000000, AGE_BYTES = 64 << 20, BYTES_EVERY = 64, RETRY_NS = 1000000000 };
enum { STACK_BYTES = 512 << 10 }; /* for the libraries of the symbol modules, which are ordinary code */

static struct {
    _Atomic uint32_t state;
    _Atomic uint32_t wakes;
    _Atomic uint32_t asked, served;
    _Atomic uint32_t quit;
    _Atomic int64_t interval_ns, next_ns;
    _Atomic int64_t stuck_ns; /* 0: no alarms */
    _Atomic int64_t alarm_ns; /* when to look for them */
    int64_t cpu_ns;           /* when to look for threads that use CPU time; only the agent's, as the next two */
    int64_t wall_ns;          /* when to look where threads are */
    bool owns;                /* has a table of descriptors of its own */
    _Atomic int64_t poll_ns;  /* time when a sampled allocation may create the thread */
    _Atomic uint32_t n_young; /* polls before that; 0 after the first attempt */
    _Atomic bool wanted, forbidden, others, is_late;
    bool (*_Atomic commands)(void); /* carries out commands; NULL: none can come */
    _Atomic uint32_t n_blocks;      /* while not 0, none is created */
    _Atomic bool shares;            /* shares the host's descriptor table */
    _Atomic int32_t tid, maker;     /* thread ids: of the agent, and of its creator */
    _Atomic int32_t ended;          /* of the last agent that ended itself */
    pthread_t thread;
    struct dp_lock life; /* held by start and by quiesce */
} agent;
static struct dp_log_cause cause;

uint8_t deltaprof_poll_wanted;

DP_IN_CHILD static bool is_missing(void)
{
    return dp_load_relaxed(&agent.wanted) && !dp_load_relaxed(&agent.forbidden) &&
           dp_load_relaxed(&agent.state) == NONE;
}

/* Where there is an agent, it looks for commands; else hooks do. */
DP_IN_CHILD static void want_poll(void)
{
    bool by_hooks = dp_load_relaxed(&agent.commands) && dp_load_relaxed(&agent.state) == NONE;
    bool wanted = by_hooks || dp_load_relaxed(&agent.others) || is_missing();
    __atomic_store_n(&deltaprof_poll_wanted, wanted, __ATOMIC_RELAXED); /* part of the public ABI, so not _Atomic */
    dp_thread_gate_keep_polling(wanted);
}

void dp_agent_keep_polling(bool wanted)
{
    dp_store_relaxed(&agent.others, wanted);
    want_poll();
}

void dp_agent_set_commands(bool (*fn)(void))
{
    dp_store_relaxed(&agent.commands, fn);
    want_poll();
}

bool dp_agent_needs_poll(void)
{
    return dp_load_relaxed(&agent.others) || is_missing();
}

static void wake(void)
{
    dp_add_release(&agent.wakes, 1);
    dp_futex_wake(&agent.wakes);
}

DP_IN_CHILD static void is_young(void)
{
    dp_store_relaxed(&agent.poll_ns, dp_clock_coarse_ns() + AGE_NS);
    dp_store_relaxed(&agent.n_young, 1);
}

static void set(const struct dp_config *conf)
{
    int64_t now = dp_clock_ns();
    if (conf->interval_ns != dp_load_relaxed(&agent.interval_ns))
        dp_store_relaxed(&agent.next_ns, conf->interval_ns ? now + conf->interval_ns : INT64_MAX);
    dp_store_relaxed(&agent.interval_ns, conf->interval_ns);
    dp_store_relaxed(&agent.stuck_ns, conf->stuck_ns);
    dp_store_relaxed(&agent.alarm_ns, conf->stuck_ns ? now : INT64_MAX);
    if (conf->stuck_ns || conf->wall_rate_ns || (dp_agent_tick_has_sink() && conf->interval_ns) ||
        dp_load_relaxed(&agent.commands))
        dp_store_relaxed(&agent.wanted, true);
}

void dp_agent_init(const struct dp_config *conf, bool interposed)
{
    dp_store_relaxed(&agent.shares, !interposed || dp_agent_alone_has_main_exited());
    dp_store_relaxed(&agent.wanted, dp_agent_tick_has_sink() && conf->signal);
    dp_store_relaxed(&agent.interval_ns, -1);
    dp_agent_spawn_init();
    set(conf);
    is_young();
    want_poll();
}

void dp_agent_tune(const struct dp_config *conf)
{
    set(conf);
    want_poll();
    wake();
}

bool dp_agent_is_running(void)
{
    return dp_load_relaxed(&agent.state) != NONE;
}

bool dp_agent_is_self(void)
{
    return dp_load_relaxed(&agent.tid) == (int32_t)syscall(SYS_gettid);
}

bool dp_agent_may_poll(void)
{
    if (dp_clock_coarse_ns() >= dp_load_relaxed(&agent.poll_ns))
        return true;
    uint32_t n = dp_load_relaxed(&agent.n_young);
    if (!n)
        return false;
    dp_store_relaxed(&agent.n_young, n == UINT32_MAX ? 1 : n + 1); /* a lost count does no harm */
    return n % BYTES_EVERY == 0 && dp_heap_bytes_seen() >= AGE_BYTES;
}

void dp_agent_poll_later(void)
{
    dp_store_relaxed(&agent.n_young, 0);
    dp_store_relaxed(&agent.poll_ns, dp_clock_ns() + RETRY_NS);
}

int32_t dp_agent_maker(void)
{
    return dp_load_relaxed(&agent.maker);
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

/* unshare by system call: the libc function may be the interposed one, which would end this thread. */
static void own_descriptors(void)
{
    agent.owns = false;
    if (dp_load_relaxed(&agent.shares))
        return;
    agent.owns = dp_log_own_table() == 0;
    if (syscall(SYS_unshare, 0x200 /* CLONE_FS */) == 0)
        (void)!chdir("/"); /* so that this thread keeps no file system busy */
}

static bool tick_is_due(uint32_t asked)
{
    if (asked != dp_load_relaxed(&agent.served))
        return true;
    int64_t now_ns = dp_clock_ns();
    return now_ns >= dp_load_relaxed(&agent.next_ns) || now_ns >= dp_agent_peaks_due_ns();
}

/* The next multiple in the future: missed ticks are not repeated. */
static void plan_next(void)
{
    int64_t interval = dp_load_relaxed(&agent.interval_ns), next = dp_load_relaxed(&agent.next_ns), now = dp_clock_ns();
    if (next > now || next == INT64_MAX)
        return;
    int64_t later = interval ? next + interval * ((now - next) / interval + 1) : INT64_MAX;
    dp_cas_relaxed(&agent.next_ns, &next, later); /* fails if tune came in between */
}

static int64_t wake_at(void)
{
    int64_t next = dp_load_relaxed(&agent.next_ns), peak_ns = dp_agent_peaks_due_ns();
    if (peak_ns < next)
        next = peak_ns;
    if (dp_load_relaxed(&agent.alarm_ns) < next)
        next = dp_load_relaxed(&agent.alarm_ns);
    if (agent.cpu_ns < next)
        next = agent.cpu_ns;
    if (agent.wall_ns < next)
        next = agent.wall_ns;
    int64_t commands = dp_load_relaxed(&agent.commands) ? dp_clock_ns() + LOOK_NS : INT64_MAX;
    if (commands < next)
        next = commands;
    if (!dp_load_relaxed(&agent.shares))
        return next;
    int64_t look = dp_clock_ns() + (dp_agent_alone_has_main_exited() ? LOOK_NS : LOOK_RARELY_NS);
    return look < next ? look : next;
}

static void look_for_alarms(void)
{
    int64_t stuck_ns = dp_load_relaxed(&agent.stuck_ns), due_ns = dp_load_relaxed(&agent.alarm_ns);
    if (!stuck_ns || dp_clock_ns() < due_ns)
        return;
    dp_cas_relaxed(&agent.alarm_ns, &due_ns, dp_waits_alarm(stuck_ns)); /* fails if set came in between */
}

static void write_profiles(void)
{
    dp_agent_signals_unblock_crashes(); /* the host may have installed its own handlers since */
    dp_agent_peaks_tick();
    dp_agent_peaks_watch(dp_load_relaxed(&agent.interval_ns) != 0, wake);
}

/* On a command, or late. False: another thread starts or ends this one now; the command has been carried out. */
static bool end_itself(void)
{
    if (!dp_lock_try(&agent.life))
        return false;
    pthread_detach(agent.thread);
    dp_store_relaxed(&agent.ended, dp_load_relaxed(&agent.tid));
    dp_store_relaxed(&agent.tid, 0);
    dp_store_relaxed(&agent.state, NONE);
    dp_futex_wake(&agent.served);
    dp_agent_alone_thread_ends();
    want_poll();
    dp_lock_unlock(&agent.life);
    return true;
}

/* Carries out commands. Returns whether one has turned the profiler off. */
static bool run_commands(void)
{
    bool (*commands)(void) = dp_load_relaxed(&agent.commands);
    return commands && commands();
}

static void *run(void *unused)
{
    dp_thread_mark_own();
    dp_agent_alone_thread_begins();
    dp_store_relaxed(&agent.tid, (int32_t)syscall(SYS_gettid));
    pthread_setname_np(pthread_self(), "deltaprof");
    own_descriptors();
    agent.cpu_ns = agent.wall_ns = 0;
    bool is_off = false;
    dp_agent_signals_unblock_crashes();
    dp_agent_peaks_begin_tick();
    dp_agent_peaks_watch(dp_load_relaxed(&agent.interval_ns) != 0, wake);
    for (;;) {
        uint32_t wakes = dp_load_acquire(&agent.wakes), asked = dp_load_acquire(&agent.asked), quit = QUIT;
        if (dp_cas_relaxed(&agent.quit, &quit, QUITTING)) {
            dp_agent_alone_thread_ends();
            dp_futex_wake(&agent.quit);
            return unused;
        }
        is_off = run_commands() || (is_off && !dp_load_relaxed(&agent.wanted));
        if ((is_off || dp_load_relaxed(&agent.is_late)) && end_itself())
            return unused;
        look_for_alarms();
        if (agent.cpu_ns == INT64_MAX || dp_clock_ns() >= agent.cpu_ns)
            agent.cpu_ns = dp_cpu_look();
        if (agent.wall_ns == INT64_MAX || dp_clock_ns() >= agent.wall_ns)
            agent.wall_ns = dp_wall_look(agent.owns);
        bool due = tick_is_due(asked), looks = due || dp_load_relaxed(&agent.shares);
        bool filtered = looks && dp_process_is_filtered(), alone = looks && !filtered && dp_agent_alone_is();
        if (!alone && !due) {
            dp_futex_wait(&agent.wakes, wakes, wake_at());
            continue;
        }
        dp_agent_peaks_begin_tick();
        if (filtered) /* no file can be written */
            dp_agent_peaks_watch(false, wake);
        else
            write_profiles();
        plan_next();
        dp_store_release(&agent.served, asked); /* [SERVED] */
        dp_futex_wake(&agent.served);
        if (alone) {
            dp_store_relaxed(&agent.forbidden, true);
            dp_store_relaxed(&agent.tid, 0);
            dp_store_relaxed(&agent.state, NONE);
            dp_futex_wake(&agent.served);
            dp_agent_alone_thread_ends();
            dp_agent_alone_keep_status();
            return unused;
        }
    }
}

int dp_agent_start(void)
{
    if (!dp_load_relaxed(&agent.wanted) || dp_load_relaxed(&agent.forbidden) || !dp_lock_try(&agent.life))
        return 0;
    int err = 0;
    uint32_t none = NONE;
    bool makes = !dp_agent_is_blocked() && dp_cas_relaxed(&agent.state, &none, STARTING);
    if (makes && dp_process_is_filtered()) {
        dp_store_relaxed(&agent.forbidden, true);
        dp_store_relaxed(&agent.state, NONE);
        makes = false;
    }
    if (makes) {
        dp_store_relaxed(&agent.quit, GO_ON);
        dp_store_relaxed(&agent.is_late, false);
        err = dp_agent_spawn(&agent.thread, STACK_BYTES, run, NULL);
        dp_store_relaxed(&agent.maker, (int32_t)syscall(SYS_gettid));
        if (err)
            dp_agent_poll_later();
        uint32_t starting = STARTING; /* NONE, if the thread has already seen that it is alone, and ended */
        dp_cas_publish(&agent.state, &starting, err ? NONE : RUNNING); /* [STATE] */
        dp_log_once(&cause, -err,
                    err ? "cannot create the background thread: %m; deltaprof will try again"
                        : "the background thread runs again");
    }
    want_poll();
    dp_lock_unlock(&agent.life);
    return err ? err : makes;
}

/* ---- requests from other threads -------------------------------------------------------------------------------- */

void dp_agent_watch(void)
{
    dp_store_relaxed(&agent.wanted, true);
    if (!dp_process_has_seccomp() && dp_process_is_noted())
        dp_agent_start();
    wake();
}

void dp_agent_request_tick(void)
{
    dp_add_release(&agent.asked, 1);
    wake();
}

bool dp_agent_finish(int64_t deadline_ns)
{
    if (!dp_agent_is_running() || dp_agent_is_self())
        return false;
    uint32_t mine = dp_add_release(&agent.asked, 1) + 1, served;
    wake();
    while ((int32_t)((served = dp_load_acquire(&agent.served)) - mine) < 0) { /* [SERVED] */
        if (!dp_agent_is_running() || dp_clock_ns() >= deadline_ns)
            return false;
        int64_t look = dp_clock_ns() + LOOK_NS; /* the thread may end without an answer */
        dp_futex_wait(&agent.served, served, look < deadline_ns ? look : deadline_ns);
    }
    return true;
}

/* After the join the kernel may still count the thread for a moment, and unshare would fail because of it. */
static void wait_until_gone(int32_t tid, int64_t deadline_ns)
{
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0 && dp_clock_ns() < deadline_ns)
        sched_yield();
}

bool dp_agent_quiesce(int64_t deadline_ns)
{
    if (!dp_agent_is_running()) {
        if (dp_load_relaxed(&agent.ended))
            wait_until_gone(dp_load_relaxed(&agent.ended), deadline_ns);
        return true;
    }
    if (dp_agent_is_self() || !dp_lock_lock_until(&agent.life, deadline_ns))
        return false;
    int saved = errno;
    bool gone = dp_load_acquire(&agent.state) == NONE; /* [STATE] */
    if (!gone) {
        uint32_t quit = QUIT;
        dp_store_relaxed(&agent.quit, QUIT);
        wake();
        while (dp_load_relaxed(&agent.quit) == QUIT && dp_agent_is_running() && dp_clock_ns() < deadline_ns) {
            int64_t look = dp_clock_ns() + LOOK_NS; /* the thread may be ending already */
            dp_futex_wait(&agent.quit, QUIT, look < deadline_ns ? look : deadline_ns);
        }
        if (!dp_cas_relaxed(&agent.quit, &quit, GO_ON)) /* if it succeeds, the thread is late and continues */
            gone = pthread_join(agent.thread, NULL) == 0;
        if (gone) {
            wait_until_gone(dp_load_relaxed(&agent.tid), deadline_ns);
            dp_store_relaxed(&agent.tid, 0);
            dp_store_relaxed(&agent.state, NONE);
            dp_futex_wake(&agent.served);
        }
        want_poll();
    }
    dp_lock_unlock(&agent.life);
    errno = saved;
    return gone;
}

/* The lock orders this with a start: either that sees the block, or the caller sees the agent, and can end it. */
void dp_agent_block_starts(int64_t deadline_ns)
{
    dp_add_relaxed(&agent.n_blocks, 1);
    if (dp_lock_lock_until(&agent.life, deadline_ns))
        dp_lock_unlock(&agent.life);
}

bool dp_agent_unblock_starts(void)
{
    uint32_t n = dp_load_relaxed(&agent.n_blocks); /* 0: the profiler was turned on after the block */
    while (n && !dp_cas_relaxed(&agent.n_blocks, &n, n - 1))
        ;
    return n <= 1;
}

bool dp_agent_is_blocked(void)
{
    return dp_load_relaxed(&agent.n_blocks) != 0;
}

void dp_agent_end_late(void)
{
    dp_store_relaxed(&agent.is_late, true);
    wake();
}

void dp_agent_before_thread_exit(int64_t deadline_ns)
{
    dp_store_relaxed(&agent.shares, true);
    if (dp_agent_is_running() && dp_agent_quiesce(deadline_ns))
        dp_agent_start();
}

void dp_agent_retire(void)
{
    dp_store_relaxed(&agent.wanted, false);
    want_poll();
}

void dp_agent_forbid(void)
{
    dp_store_relaxed(&agent.forbidden, true);
    want_poll();
}

DP_IN_CHILD void dp_agent_fork_child(void)
{
    dp_lock_reset(&agent.life);
    dp_store_relaxed(&agent.state, NONE);
    dp_store_relaxed(&agent.tid, 0);
    dp_store_relaxed(&agent.ended, 0);
    dp_store_relaxed(&agent.n_blocks, 0);
    dp_agent_peaks_fork_child();
    dp_store_relaxed(&agent.served, dp_load_relaxed(&agent.asked));
    int64_t interval = dp_load_relaxed(&agent.interval_ns);
    dp_store_relaxed(&agent.next_ns, interval ? dp_clock_coarse_ns() + interval : INT64_MAX);
    dp_store_relaxed(&agent.alarm_ns, dp_load_relaxed(&agent.stuck_ns) ? 0 : INT64_MAX);
    dp_store_relaxed(&cause.last, 0);
    is_young();
    want_poll();
}
