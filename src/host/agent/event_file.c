/* SPDX-License-Identifier: MIT */
/*
 * host/agent/event_file.c - the events of a tick as a file. With events=on it has the SEQ of the tick's other files; in
 * a directory of their own the files are numbered by themselves.
 */
#include "host/agent/event_file.h"

#include "base/mem.h"
#include "host/report/event_profile.h"
#include "host/report/profile.h"
#include "host/symbols/symbols_lock.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static struct {
    char where[DP_CONFIG_TEXT]; /* the value of the key */
    struct dp_agent_files own;  /* for a directory of their own */
} sink DP_LARGE;

void dp_agent_events_sink_init(const struct dp_config *conf)
{
    if (!conf->events[0] && !sink.where[0])
        return; /* the usual case touches no page */
    strcpy(sink.where, conf->events);
    memset(&sink.own, 0, sizeof sink.own);
}

/* The directory's files for this process, which may be a forked child of the one that wrote last. */
static int own_files(const struct dp_agent_files *files)
{
    if (sink.own.pid == files->pid)
        return 0;
    int err = dp_agent_files_init(&sink.own, sink.where, files->program, files->pid, files->keep);
    sink.own.forked = files->forked;
    if (err == 0)
        err = dp_agent_files_make_directory(&sink.own);
    if (err)
        sink.own.pid = 0;
    return err;
}

static int write_to(struct dp_agent_files *files, struct dp_symbols_files *names, unsigned flags, int64_t deadline_ns)
{
    struct dp_agent_file file = {.files = files, .kind = DP_KIND_EVENTS};
    int err;
    do {
        err = dp_report_events_write(flags, names, dp_agent_file_write, &file);
        if (err < 0)
            dp_agent_file_drop(&file);
    } while (err == -EAGAIN && dp_symbols_lock_await(deadline_ns));
    if (err == 0)
        err = dp_agent_file_keep(&file);
    else
        return err > 0 ? 0 : err;
    if (err == 0)
        dp_report_events_deliver();
    return err;
}

int dp_agent_events_sink_write(struct dp_agent_files *files, struct dp_symbols_files *names, unsigned flags,
                               int64_t deadline_ns)
{
    if (!sink.where[0])
        return 0;
    if (strcmp(sink.where, "on") == 0)
        return write_to(files, names, flags, deadline_ns);
    int err = own_files(files);
    if (err)
        return err;
    err = write_to(&sink.own, names, flags, deadline_ns);
    dp_agent_files_end(&sink.own);
    return err;
}
