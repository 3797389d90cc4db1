/* SPDX-License-Identifier: MIT */
/*
 * sink/agent.c - one thread, its bell, and its manners.
 *
 * Manners: made as spawn.c makes threads, the guard held for life, a descriptor table and working directory of its own
 * where the kernel allows it: an empty table, since a copy of the host's would keep its closed sockets and pipes open
 * for ever. Where it is not allowed, it shares the host's and stays above its numbers (file.c).
 *
 * The bell is a futex that moves whenever there is something to look at. `asked` counts requests for a tick, `served`
 * the requests that a finished tick covers: who asked waits until served has come as far. [SERVED] is released after a
 * tick and acquired by who waited: what it wrote down is then there to be read. [STATE] RUNNING is published after the
 * thread's handle, for quiesce to join.
 *
 *     NONE --start--> STARTING --> RUNNING --quiesce--> NONE      any --fork, in the child--> NONE
 *
 * Progress: a stuck sink keeps the agent in its tick. Nobody waits for that without a deadline, and fork does not wait.
 */
#include "sink/agent.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/process.h"
#include "record/thread.h"
#include "sink/file.h"
#include "sink/spawn.h"
#include "sink/tick.h"

#include <deltaprof/hooks.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NONE, STARTING, RUNNING };
enum { GO_ON, QUIT, QUITTING };
enum { LOOK_NS = 100000000, LOOK_RARELY_NS = 1000000000 };
enum { STACK_BYTES = 512 << 10 }; /* the symbol module's libraries are ordinary code */

static struct {
    _Atomic uint32_t state;
    _Atomic uint32_t bell;
    _Atomic uint32_t asked, served;
    _Atomic uint32_t quit;
    _Atomic int64_t interval_ns, next_ns;
    _Atomic bool wanted, forbidden, others;
    _Atomic bool shares; /* the host's descriptors */
    _Atomic bool main_left;
    _Atomic int32_t tid;
    pthread_t thread;
    struct dp_lock life; /* start and quiesce, one at a time */
} agent;
static struct dp_log_cause cause;

uint8_t deltaprof_poll_wanted;

static void want_poll(void)
{
    bool wanted =
        dp_load_relaxed(&agent.others) ||
        (dp_load_relaxed(&agent.wanted) && !dp_load_relaxed(&agent.forbidden) && dp_load_relaxed(&agent.state) == NONE);
    __atomic_store_n(&deltaprof_poll_wanted, wanted, __ATOMIC_RELAXED); /* part of the public ABI, so not _Atomic */
}

void dp_agent_keep_polling(bool wanted)
{
    dp_store_relaxed(&agent.others, wanted);
    want_poll();
}

static void ring(void)
{
    dp_add_release(&agent.bell, 1);
    dp_futex_wake(&agent.bell);
}

void dp_agent_init(const struct dp_config *conf, bool interposed)
{
    dp_store_relaxed(&agent.shares, !interposed || dp_load_relaxed(&agent.main_left));
    dp_store_relaxed(&agent.interval_ns, conf->interval_ns);
    dp_store_relaxed(&agent.next_ns, conf->interval_ns ? dp_clock_ns() + conf->interval_ns : INT64_MAX);
    dp_store_relaxed(&agent.wanted, dp_tick_has_sink() && (conf->interval_ns || conf->signal));
    want_poll();
}

void dp_agent_tune(int64_t interval_ns)
{
    dp_store_relaxed(&agent.interval_ns, interval_ns);
    dp_store_relaxed(&agent.next_ns, interval_ns ? dp_clock_ns() + interval_ns : INT64_MAX);
    dp_store_relaxed(&agent.wanted, dp_tick_has_sink() && (interval_ns || dp_load_relaxed(&agent.wanted)));
    want_poll();
    ring();
}

bool dp_agent_is_running(void)
{
    return dp_load_relaxed(&agent.state) != NONE;
}

bool dp_agent_is_self(void)
{
    return dp_load_relaxed(&agent.tid) == (int32_t)syscall(SYS_gettid);
}

bool dp_agent_due(void)
{
    if (!dp_load_relaxed(&agent.wanted) || dp_load_relaxed(&agent.forbidden) || dp_load_relaxed(&agent.state) != NONE)
        return false;
    return dp_load_relaxed(&agent.asked) != dp_load_relaxed(&agent.served) ||
           dp_clock_coarse_ns() >= dp_load_relaxed(&agent.next_ns);
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

/* unshare by system call: the libc function may be the interposer's, which would end us for it. */
static void own_descriptors(void)
{
    if (dp_load_relaxed(&agent.shares))
        return;
    if (dp_log_own_table() == 0)
        dp_process_own_descriptors();
    if (syscall(SYS_unshare, 0x200 /* CLONE_FS */) == 0)
        (void)!chdir("/"); /* no file system stays busy for us */
}

static bool tick_is_due(uint32_t asked)
{
    if (asked != dp_load_relaxed(&agent.served))
        return true;
    return dp_clock_ns() >= dp_load_relaxed(&agent.next_ns);
}

/* The next multiple that lies ahead: ticks that were missed are not made up for. */
static void plan_next(void)
{
    int64_t interval = dp_load_relaxed(&agent.interval_ns), next = dp_load_relaxed(&agent.next_ns), now = dp_clock_ns();
    if (next > now || next == INT64_MAX)
        return;
    int64_t later = interval ? next + interval * ((now - next) / interval + 1) : INT64_MAX;
    dp_cas_relaxed(&agent.next_ns, &next, later); /* not if tune came in between */
}

/* The leader is a zombie and there is nobody else: /proc/self/stat, state and num_threads. */
static bool is_alone(void)
{
    char text[512];
    int fd = dp_file_out_of_the_way(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *p = strrchr(text, ')'); /* behind the name, which may hold anything */
    if (!p || p[1] != ' ' || p[2] != 'Z')
        return false;
    dp_store_relaxed(&agent.main_left, true);
    p += 2; /* field 3 */
    for (int field = 3; p && field < 20; field++)
        p = strchr(p + 1, ' ');
    return p && strncmp(p, " 2 ", 3) == 0;
}

static int64_t wake_at(void)
{
    int64_t next = dp_load_relaxed(&agent.next_ns);
    if (!dp_load_relaxed(&agent.shares))
        return next;
    int64_t look = dp_clock_ns() + (dp_load_relaxed(&agent.main_left) ? LOOK_NS : LOOK_RARELY_NS);
    return look < next ? look : next;
}

static void *run(void *unused)
{
    dp_thread_is_ours();
    dp_store_relaxed(&agent.tid, (int32_t)syscall(SYS_gettid));
    pthread_setname_np(pthread_self(), "deltaprof");
    own_descriptors();
    for (;;) {
        uint32_t bell = dp_load_acquire(&agent.bell), asked = dp_load_acquire(&agent.asked), quit = QUIT;
        if (dp_cas_relaxed(&agent.quit, &quit, QUITTING)) {
            dp_futex_wake(&agent.quit);
            return unused;
        }
        bool alone = dp_load_relaxed(&agent.shares) && is_alone();
        if (!alone && !tick_is_due(asked)) {
            dp_futex_wait(&agent.bell, bell, wake_at());
            continue;
        }
        dp_tick(INT64_MAX);
        plan_next();
        dp_store_release(&agent.served, asked); /* [SERVED] */
        dp_futex_wake(&agent.served);
        if (alone) {
            dp_store_relaxed(&agent.forbidden, true);
            dp_store_relaxed(&agent.tid, 0);
            dp_store_relaxed(&agent.state, NONE);
            return unused;
        }
    }
}

int dp_agent_start(void)
{
    if (!dp_load_relaxed(&agent.wanted) || dp_load_relaxed(&agent.forbidden) || !dp_lock_try(&agent.life))
        return 0;
    int rc = 0;
    uint32_t none = NONE;
    if (dp_cas_relaxed(&agent.state, &none, STARTING)) {
        dp_store_relaxed(&agent.quit, GO_ON);
        rc = dp_spawn(&agent.thread, STACK_BYTES, run, NULL);
        if (rc) {
            int64_t interval = dp_load_relaxed(&agent.interval_ns);
            dp_store_relaxed(&agent.next_ns, dp_clock_ns() + (interval ? interval : 1000000000));
        }
        dp_store_release(&agent.state, rc ? NONE : RUNNING); /* [STATE] */
        dp_log_once(&cause, -rc, rc ? "no thread for the ticks: %m; tried again later" : "ticks have a thread again");
    }
    want_poll();
    dp_lock_give(&agent.life);
    return rc;
}

/* ---- those who want something of it ----------------------------------------------------------------------------- */

void dp_agent_ring(void)
{
    dp_add_release(&agent.asked, 1);
    ring();
}

bool dp_agent_finish(int64_t deadline_ns)
{
    if (!dp_agent_is_running() || dp_agent_is_self())
        return false;
    uint32_t mine = dp_add_release(&agent.asked, 1) + 1, served;
    ring();
    while ((int32_t)((served = dp_load_acquire(&agent.served)) - mine) < 0) { /* [SERVED] */
        if (!dp_agent_is_running() || dp_clock_ns() >= deadline_ns)
            return false;
        dp_futex_wait(&agent.served, served, deadline_ns);
    }
    return true;
}

/* After the join the kernel may still count the thread for a moment, and unshare would fail for it. */
static void wait_until_gone(int32_t tid, int64_t deadline_ns)
{
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0 && dp_clock_ns() < deadline_ns)
        sched_yield();
}

bool dp_agent_quiesce(int64_t deadline_ns)
{
    if (!dp_agent_is_running())
        return true;
    if (dp_agent_is_self() || !dp_lock_take_until(&agent.life, deadline_ns))
        return false;
    int saved = errno;
    bool gone = dp_load_acquire(&agent.state) == NONE; /* [STATE] */
    if (!gone) {
        uint32_t quit = QUIT;
        dp_store_relaxed(&agent.quit, QUIT);
        ring();
        while (dp_load_relaxed(&agent.quit) == QUIT && dp_clock_ns() < deadline_ns)
            dp_futex_wait(&agent.quit, QUIT, deadline_ns);
        if (!dp_cas_relaxed(&agent.quit, &quit, GO_ON)) /* else it is late, and goes on */
            gone = pthread_join(agent.thread, NULL) == 0;
        if (gone) {
            wait_until_gone(dp_load_relaxed(&agent.tid), deadline_ns);
            dp_store_relaxed(&agent.tid, 0);
            dp_store_relaxed(&agent.state, NONE);
            dp_futex_wake(&agent.served);
        }
        want_poll();
    }
    dp_lock_give(&agent.life);
    errno = saved;
    return gone;
}

void dp_agent_main_leaves(int64_t deadline_ns)
{
    dp_store_relaxed(&agent.main_left, true);
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

void dp_agent_fork_child(void)
{
    dp_lock_reset(&agent.life);
    dp_store_relaxed(&agent.state, NONE);
    dp_store_relaxed(&agent.tid, 0);
    dp_store_relaxed(&agent.main_left, false); /* whoever forked is main now */
    dp_store_relaxed(&agent.served, dp_load_relaxed(&agent.asked));
    int64_t interval = dp_load_relaxed(&agent.interval_ns);
    dp_store_relaxed(&agent.next_ns, interval ? dp_clock_ns() + interval : INT64_MAX);
    dp_store_relaxed(&cause.last, 0);
    want_poll();
}
