/* SPDX-License-Identifier: MIT */
/* tool/cli/on.c - `deltaprof on`, `off` and `set`: turn the profiler on and off in a running process, and change it. */
#include "tool/cli/cli.h"
#include "config/config.h"
#include "base/text.h"
#include "tool/cli/options.h"
#include "tool/query/print.h"
#include "tool/run/conf_text.h"
#include "tool/run/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_STATUS_HELP                                                                                        \
    "Exit status: 0 if it is done; 1 if it cannot be done; 2 if an option is wrong; 3 if the process has not\n" \
    "allocated in the time of --wait: it will hear the command when it allocates.\n"

static const char about_on[] =
    "Turns the profiler on in process PID, which was started by deltaprof run --dormant, or with start=off in\n"
    "DELTAPROF_CONF or deltaprof_start(). No debugger and no right to trace is needed: the user of the process and\n"
    "root may do it. What is in use is counted from now on; profiles say since when. The process hears the command\n"
    "when one of its threads allocates, usually within a tenth of a second.\n"
    "\n"
    "  -o KEY=VALUE,...  keys that change what the process was started with, as of deltaprof run -o; memory, depth,\n"
    "                    unwind and the like keep their values once it was on\n"
    "  --wait TIME       wait for the process's answer, at most that long (5s)\n"
    "\n" EXIT_STATUS_HELP;

static const char about_off[] =
    "Turns the profiler off in process PID: its last profiles are written, no sample is taken, and its background\n"
    "thread ends. Memory that was in use is still followed, so that deltaprof on continues where it ended.\n"
    "\n"
    "  --wait TIME       wait for the process's answer, at most that long (5s)\n"
    "\n" EXIT_STATUS_HELP;

static const char about_set[] =
    "Changes keys in process PID, in which the profiler is on: rates, interval, symbolize, stuck.\n"
    "\n"
    "  --wait TIME       wait for the process's answer, at most that long (5s)\n"
    "\n" EXIT_STATUS_HELP;

/* What was asked for. */
struct request {
    const char *verb;
    struct dp_run_text keys;
    pid_t pid;
    int64_t wait_ns;
};

static int refuse_keys(const struct request *request, const char *line)
{
    dp_query_print_error(request->verb, "%s", line);
    return DP_EXIT_USAGE;
}

/* 0, or DP_EXIT_USAGE after one line. */
static int add_keys(struct request *request, const char *words)
{
    static struct dp_config conf;
    struct dp_config_error error;
    dp_config_init(&conf);
    int err = strcmp(request->verb, "set") ? dp_config_parse(&conf, words, &error)
                                           : dp_config_parse_live(&conf, words, &error);
    if (!err && dp_config_given(&conf, "start"))
        return refuse_keys(request, "start=: deltaprof on and off decide that");
    if (err)
        return refuse_keys(request, error.line);
    if (dp_run_text_append(&request->keys, words) || dp_run_text_make_absolute(&request->keys, &conf, false))
        return refuse_keys(request, "out of memory");
    return 0;
}

static int read_pid(struct request *request, const char *word)
{
    request->pid = dp_cli_options_process(word);
    if (request->pid)
        return 0;
    dp_query_print_error(request->verb, "%s is not the number of a process", word);
    return DP_EXIT_USAGE;
}

/* The argument of an option that begins with `name`, if word does; NULL: it is another word, or has none. */
static const char *value_of(const char *name, int argc, char **argv, int *i)
{
    size_t n = strlen(name);
    const char *word = argv[*i];
    if (strncmp(word, name, n))
        return NULL;
    bool is_long = name[1] == '-';
    if (word[n])
        return !is_long ? word + n : word[n] == '=' ? word + n + 1 : NULL;
    return *i + 1 < argc ? argv[++*i] : NULL;
}

/* 0, or DP_EXIT_USAGE after one line. Options may stand behind PID. */
static int read_words(struct request *request, int argc, char **argv)
{
    bool sets = !strcmp(request->verb, "set"), is_on = !strcmp(request->verb, "on");
    for (int i = 1; i < argc; i++) {
        int status = 0;
        const char *value;
        if (is_on && (value = value_of("-o", argc, argv, &i))) {
            status = add_keys(request, value);
        } else if ((value = value_of("--wait", argc, argv, &i))) {
            if (dp_text_read_time(value, &request->wait_ns)) {
                dp_query_print_error(request->verb, "--wait %s: not a time, such as 500ms or 10s", value);
                return DP_EXIT_USAGE;
            }
        } else if (argv[i][0] == '-') {
            dp_query_print_error(request->verb, "%s is not an option, or has no value", argv[i]);
            return DP_EXIT_USAGE;
        } else if (!request->pid) {
            status = read_pid(request, argv[i]);
        } else if (sets) {
            status = add_keys(request, argv[i]);
        } else {
            dp_query_print_error(request->verb, "%s: one process at a time", argv[i]);
            return DP_EXIT_USAGE;
        }
        if (status)
            return status;
    }
    if (!request->pid || (sets && !request->keys.n_bytes)) {
        dp_query_print_error(request->verb, "no %s given: deltaprof %s %s", request->pid ? "KEY=VALUE" : "PID",
                             request->verb, dp_cli_verb(request->verb)->arguments);
        return DP_EXIT_USAGE;
    }
    return 0;
}

static int run(int argc, char **argv, const char *about)
{
    struct request request = {.verb = argv[0], .wait_ns = 5000000000};
    char why[4608], *command = NULL;
    if (dp_cli_help(argc, argv, about))
        return 0;
    int status = read_words(&request, argc, argv);
    if (!status && asprintf(&command, "%s %s", request.verb, request.keys.bytes ? request.keys.bytes : "") < 0) {
        command = NULL;
        dp_query_print_error(request.verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    if (!status) {
        enum dp_run_control result = dp_run_control_send(request.pid, command, request.wait_ns, why, sizeof why);
        if (result == DP_RUN_CONTROL_UNHEARD)
            dp_query_print_error(request.verb, "process %d has not heard it yet: it will while it allocates",
                                 (int)request.pid);
        else if (result == DP_RUN_CONTROL_FAILED)
            dp_query_print_error(request.verb, "%s", why);
        else
            printf("process %d: %s\n", (int)request.pid,
                   !strcmp(request.verb, "set")  ? "changed"
                   : !strcmp(request.verb, "on") ? "on"
                                                 : "off");
        status = result == DP_RUN_CONTROL_UNHEARD  ? DP_EXIT_UNSURE
                 : result == DP_RUN_CONTROL_FAILED ? DP_EXIT_FAILED
                                                   : 0;
    }
    free(command);
    free(request.keys.bytes);
    return status ? status : dp_query_print_flush(request.verb);
}

int dp_cli_on(int argc, char **argv)
{
    return run(argc, argv, about_on);
}

int dp_cli_off(int argc, char **argv)
{
    return run(argc, argv, about_off);
}

int dp_cli_set(int argc, char **argv)
{
    return run(argc, argv, about_set);
}
