/* SPDX-License-Identifier: MIT */
/*
 * host/api/commands.c - receives commands (deltaprof on, off, set) and carries them out.
 *
 * While the profiler is off, hooks look for a command: each thread counts the bytes that it allocates, and at the end
 * of its countdown, every few milliseconds (dp_heap_watch_commands), the outer edge of the hook asks the kernel whether
 * the process's word of the control file has changed. So a process that is off has no thread, no table and no open
 * file. While the profiler is on, the agent looks ten times a second, and hooks do not.
 *
 *     OFF   hooks look --on--> a helper starts the profiler and creates the agent --> ON
 *     ON    the agent looks --off--> writes the last profiles, stops the profiler, ends itself --> OFF
 *
 * A command is carried out in a helper thread (host/agent/helper.h): it reads text, opens files, and creates threads,
 * which no hook may do. Two processes share a word if their ids have the same remainder after division by the number of
 * words. Then a command for one of them starts a helper thread in the other, too.
 *
 * The answer goes into the command's slot. A process that cannot write it there has carried out the command all the
 * same.
 */
#include "host/api/commands.h"

#include "base/clock.h"
#include "tmpfs/control.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "config/settings.h"
#include "host/agent/agent.h"
#include "host/agent/helper.h"
#include "host/agent/tick.h"
#include "host/api/core.h"
#include "host/heap/heap.h"
#include "host/http/listen.h"

#include <deltaprof/deltaprof.h>
#include <deltaprof/thread.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 20000000

static struct {
    struct dp_control_file *_Atomic file; /* NULL: no commands */
    _Atomic uint32_t seen;                /* the word, when this process last looked for commands */
    _Atomic int64_t next_ns;              /* while the profiler is on without an agent: when to look again */
} commands;

/* ---- what a command does ----------------------------------------------------------------------------------------- */

/* keys: what stands behind the verb. Each returns 0, or a negative errno with a line in answer. */
static int turn_on(const char *keys, char *answer, size_t n_answer)
{
    struct dp_config_error error = {.line = ""};
    int err = dp_core_turn_on(keys, &error);
    if (err == -EALREADY && !*keys)
        return 0;
    if (err == -EALREADY) {
        struct dp_config conf;
        dp_config_init(&conf);
        err = dp_config_parse_live(&conf, keys, &error);
        if (err == 0)
            err = deltaprof_set(keys);
    }
    if (err > 0) {
        dp_text_format(answer, n_answer, "exe= excludes this program");
        return -EPERM;
    }
    if (err && error.line[0])
        dp_text_format(answer, n_answer, "%s", error.line);
    else if (err)
        dp_text_format(answer, n_answer, "cannot start: errno %d", -err);
    return err;
}

static int turn_off(void)
{
    if (dp_load_relaxed(&dp_core.state) != DP_CORE_RUNNING)
        return 0;
    dp_agent_tick(INT64_MAX);
    deltaprof_stop();
    return 0;
}

static int change(const char *keys, char *answer, size_t n_answer)
{
    struct dp_config conf;
    struct dp_config_error error;
    dp_config_init(&conf);
    int err = dp_config_parse_live(&conf, keys, &error);
    if (err) {
        dp_text_format(answer, n_answer, "%s", error.line);
        return err;
    }
    if (dp_load_relaxed(&dp_core.state) != DP_CORE_RUNNING) {
        dp_text_format(answer, n_answer, "it is off; deltaprof on %d -o %s", (int)dp_process_pid(), keys);
        return -ENOTCONN;
    }
    return deltaprof_set(keys);
}

static int carry_out(const char *command, char *answer, size_t n_answer)
{
    if (strncmp(command, "on ", 3) == 0)
        return turn_on(command + 3, answer, n_answer);
    if (strcmp(command, "off ") == 0)
        return turn_off();
    if (strncmp(command, "set ", 4) == 0)
        return change(command + 4, answer, n_answer);
    dp_text_format(answer, n_answer, "this version of the library knows on, off and set");
    return -EINVAL;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static bool is_for_this_process(struct dp_control_slot *slot)
{
    if (slot->pid != (uint32_t)dp_process_pid() || slot->answered == slot->seq ||
        slot->check != dp_control_check(slot) || !memchr(slot->command, '\0', sizeof slot->command))
        return false;
    uint64_t start = dp_process_began(getpid(), getpid(), NULL);
    return !start || slot->start == start;
}

static void write_answer(struct dp_control_slot *to, const struct dp_control_slot *slot)
{
    struct {
        uint32_t answered;
        int32_t err;
    } end = {slot->seq, slot->err};
    _Static_assert(offsetof(struct dp_control_slot, err) == offsetof(struct dp_control_slot, answered) + 4, "as here");
    dp_control_copy(to->answer, slot->answer, sizeof to->answer);
    dp_control_copy(&to->answered, &end, sizeof end);
}

/* Carries out all commands for this process. */
static void serve(struct dp_control_file *file)
{
    struct dp_control_slot slot;
    dp_store_relaxed(&commands.seen, dp_control_word(file, dp_process_pid(), dp_load_relaxed(&commands.seen)));
    for (size_t i = 0; i < DP_CONTROL_SLOTS; i++) {
        if (dp_control_copy(&slot, &file->slots[i], sizeof slot) || !is_for_this_process(&slot))
            continue;
        memset(slot.answer, 0, sizeof slot.answer);
        slot.err = carry_out(slot.command, slot.answer, sizeof slot.answer);
        write_answer(&file->slots[i], &slot);
    }
}

void dp_commands_run(void)
{
    struct dp_control_file *file = dp_load_relaxed(&commands.file);
    if (file && dp_control_is_changed(file, dp_process_pid(), dp_load_relaxed(&commands.seen)))
        serve(file);
    if (dp_load_relaxed(&dp_core.state) != DP_CORE_RUNNING)
        return;
    dp_agent_start();
    dp_http_listen_start();
    if (!dp_agent_helper_has_rights()) {
        int64_t deadline_ns = INT64_MAX;
        dp_http_listen_stop(deadline_ns);
        dp_agent_quiesce(deadline_ns);
    }
}

/* In the agent. True: it is to end. */
static bool run_in_agent(void)
{
    struct dp_control_file *file = dp_load_relaxed(&commands.file);
    if (!file || !dp_control_is_changed(file, dp_process_pid(), dp_load_relaxed(&commands.seen)))
        return false;
    serve(file);
    return dp_load_relaxed(&dp_core.state) == DP_CORE_STOPPED;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

void dp_commands_begin(const struct dp_config *conf)
{
    if (dp_load_relaxed(&commands.file))
        return;
    dp_process_note();
    dp_process_note_unfiltered();
    dp_log_init(conf->log);
    int fd = dp_control_open();
    struct dp_control_file *file = fd < 0 ? NULL : dp_control_map(fd);
    int err = fd < 0 ? fd : file ? 0 : -ENOMEM;
    if (fd >= 0)
        close(fd);
    if (err == 0)
        err = dp_core_watch_forks();
    if (err) {
        errno = -err;
        dp_log(DP_LOG_ERROR, "start=off: %s: %m; deltaprof on cannot reach this process, which stays off",
               err == -ENOTSUP ? "no tmpfs of this user in XDG_RUNTIME_DIR or /dev/shm" : "the control file");
        return;
    }
    dp_agent_helper_init();
    dp_store_relaxed(&commands.file, file);
    dp_heap_watch_commands(true);
    dp_agent_set_commands(run_in_agent);
}

bool dp_commands_are_on(void)
{
    return dp_load_relaxed(&commands.file) != NULL;
}

/* Every sample may come here. Two threads may look at once, which costs no more than that. */
static bool is_time_to_look(void)
{
    int64_t now_ns = dp_clock_coarse_ns();
    if (now_ns < dp_load_relaxed(&commands.next_ns))
        return false;
    dp_store_relaxed(&commands.next_ns, now_ns + LOOK_NS);
    return true;
}

/* First what costs least: in most processes there is no file. */
bool dp_commands_poll(void)
{
    struct dp_control_file *file = dp_load_relaxed(&commands.file);
    if (!file || dp_agent_is_running() || dp_process_has_seccomp())
        return false;
    bool is_on = dp_load_relaxed(&dp_core.state) == DP_CORE_RUNNING; /* the agent is missing: hooks are busy, too */
    if (is_on && !is_time_to_look())
        return false;
    bool is_needed = is_on && dp_agent_needs_poll() && dp_agent_may_poll();
    if (!is_needed && !dp_control_is_changed(file, dp_process_pid(), dp_load_relaxed(&commands.seen)))
        return false;
    if (!dp_process_is_noted())
        return false;
    int64_t kept = deltaprof_guard_enter();
    bool runs = dp_agent_helper_run(dp_commands_run);
    deltaprof_guard_exit(kept);
    return runs;
}

void dp_commands_before_thread_create(void)
{
    if (!dp_commands_are_on() || dp_process_has_seccomp() || !dp_process_is_noted())
        return;
    int64_t kept = deltaprof_guard_enter();
    dp_agent_helper_prepare();
    deltaprof_guard_exit(kept);
    dp_commands_poll();
}

void dp_commands_forbid(int64_t deadline_ns)
{
    if (!dp_commands_are_on())
        return;
    dp_store_relaxed(&commands.file, NULL);
    dp_heap_watch_commands(false);
    dp_agent_set_commands(NULL);
    dp_agent_helper_wait(deadline_ns);
}

DP_IN_CHILD void dp_commands_fork_child(void)
{
    dp_store_relaxed(&commands.seen, 0);
    dp_agent_helper_fork_child();
}
