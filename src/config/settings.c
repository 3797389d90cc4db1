/* SPDX-License-Identifier: MIT */
/*
 * config/settings.c - builds the configuration at start. `exe` is checked first: for an excluded program nothing is
 * done but parsing.
 */
#include "config/settings.h"

#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "config/lock_kinds.h"
#include "tmpfs/table_place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPU_RATE_NS 10000000

/* Logs an error in either text. */
static int merge(struct dp_config *conf, const char *text)
{
    static struct dp_log_bound mistakes;
    struct dp_config_error error;
    const char *source = "deltaprof_start";
    dp_config_init(conf);
    int err = dp_config_parse(conf, text, &error);
    if (err == 0) {
        source = "DELTAPROF_CONF";
        err = dp_config_parse(conf, secure_getenv("DELTAPROF_CONF"), &error);
    }
    if (err == 0)
        err = dp_config_check(conf, &error);
    if (err) {
        dp_log_init("stderr");
        dp_log_bounded(&mistakes, "%s: %s; nothing is profiled, the program continues", source, error.line);
    }
    return err;
}

/* Makes a path absolute. percent: doubles each % of the working directory, which is no conversion there. */
static int absolute(char path[DP_CONFIG_TEXT], bool percent)
{
    char here[DP_CONFIG_TEXT], whole[2 * DP_CONFIG_TEXT + 2];
    size_t n = 0;
    if (!path[0] || path[0] == '/')
        return 0;
    if (!getcwd(here, sizeof here))
        return -errno;
    for (const char *p = here; *p; p++) {
        whole[n++] = *p;
        if (percent && *p == '%')
            whole[n++] = '%';
    }
    const char *rest = strcmp(path, ".") == 0 ? "" : path;
    if (n + strlen(rest) + 2 > DP_CONFIG_TEXT)
        return -ENAMETOOLONG;
    dp_text_format(whole + n, sizeof whole - n, "%s%s", *rest && n > 1 ? "/" : "", rest);
    strcpy(path, whole);
    return 0;
}

static int make_absolute(struct dp_config *conf)
{
    int err = absolute(conf->out, true);
    if (err == 0)
        err = absolute(conf->token, false);
    if (err == 0)
        err = absolute(conf->lock_names, false);
    if (err == 0)
        err = absolute(conf->tables, false);
    if (err == 0 && strchr(conf->events, '/'))
        err = absolute(conf->events, true);
    if (err == 0 && strchr(conf->log, '/'))
        err = absolute(conf->log, false);
    if (err) {
        dp_log_init("stderr");
        errno = -err;
        dp_log(DP_LOG_ERROR,
               "cannot find the working directory, which out, events, log, tables, token or lock_names needs: "
               "%m; nothing is profiled, the "
               "program continues");
    }
    return err;
}

static int read_lock_names(const struct dp_config *conf)
{
    struct dp_config_error error;
    int err = dp_lock_kinds_read(conf->lock_names, &error);
    if (err) {
        dp_log_init("stderr");
        dp_log(DP_LOG_ERROR, "%s; nothing is profiled, the program continues", error.line);
    }
    return err;
}

int dp_config_settings_make(struct dp_config *conf, const char *text, bool preloaded)
{
    int err = merge(conf, text);
    if (err)
        return err;
    if (!dp_process_matches(conf->exe))
        return 1;
    if (preloaded && !dp_config_given(conf, "out") && (!conf->listen[0] || conf->events[0]))
        strcpy(conf->out, ".");
    conf->has_users_tables = preloaded && !dp_config_given(conf, "tables");
    if (conf->has_users_tables)
        dp_tables_place_default(conf->tables, sizeof conf->tables);
    if (preloaded && !dp_config_given(conf, "signals"))
        conf->signals = true;
    if (preloaded && !dp_config_given(conf, "cpu_rate") && secure_getenv("DELTAPROF_RUN"))
        conf->cpu_rate_ns = CPU_RATE_NS; /* of programs that it starts, too */
    if (conf->events[0] && !conf->out[0]) {
        dp_log_init("stderr");
        dp_log(DP_LOG_ERROR,
               "events: needs out=DIR, where profiles are written; nothing is profiled, the program continues");
        return -EINVAL;
    }
    err = make_absolute(conf);
    return err || !conf->lock_names[0] ? err : read_lock_names(conf);
}

static bool is_relative(const char *path)
{
    return strchr(path, '/') && path[0] != '/';
}

int dp_config_settings_amend(struct dp_config *conf, const char *text, struct dp_config_error *error)
{
    struct dp_config amended = {.out = ""};
    dp_config_copy(&amended, conf);
    int err = dp_config_parse(&amended, text, error);
    if (err == 0)
        err = dp_config_check(&amended, error);
    bool misses_out = (amended.out[0] && amended.out[0] != '/') || is_relative(amended.log) ||
                      is_relative(amended.events) || (amended.token[0] && is_relative(amended.token));
    if (err == 0 && misses_out) {
        dp_text_format(error->line, sizeof error->line, "out, events, log and token need absolute paths here");
        err = -EINVAL;
    }
    if (err == 0 && amended.events[0] && !amended.out[0]) {
        dp_text_format(error->line, sizeof error->line, "events: needs out=DIR, where profiles are written");
        err = -EINVAL;
    }
    if (err == 0 && strcmp(amended.lock_names, conf->lock_names) != 0)
        err = dp_lock_kinds_read(amended.lock_names, error);
    amended.has_users_tables &= !dp_config_given(&amended, "tables");
    if (err == 0)
        dp_config_copy(conf, &amended);
    return err;
}

bool dp_config_by_run(void)
{
    const char *text = secure_getenv("DELTAPROF_RUN");
    int64_t pid;
    return text && dp_text_read_count(text, &pid) == 0 && pid == getpid();
}
