/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/run.c - `deltaprof run`: sets LD_PRELOAD and DELTAPROF_CONF, then executes COMMAND.
 *
 * Errors that can be known are reported before the start. exec then replaces this process, so COMMAND has its pid, its
 * terminal and its exit status. Paths in the configuration are made absolute here, because children that change their
 * directory inherit it.
 */
#include "tool/cli/cli.h"
#include "binary/warning.h"
#include "tool/recover/recover.h"
#include "tool/run/beside.h"
#include "tool/run/conf_text.h"
#include "tool/run/preload.h"
#include "tool/run/program.h"
#include "config/config.h"
#include "config/lock_kinds.h"
#include "tool/query/print.h"
#include "tool/serve/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char about[] =
    "Runs COMMAND with the profiler loaded into it. Programs that COMMAND starts are profiled too, unless exe=\n"
    "excludes them. Profiles are written as out/PROGRAM.PID.SEQ.KIND.pb.gz. Without out=, they are written to the\n"
    "current directory, or, with listen= but without events=, not at all.\n"
    "\n"
    "  --dormant        profile nothing until deltaprof on PID asks for it: the same as -o start=off\n"
    "  --serve ADDRESS  start deltaprof serve beside COMMAND: one endpoint for it and all that it starts. The tables\n"
    "                   are in a directory of their own (for deltaprof ps: it is printed), unless tables= names one; "
    "token= is\n"
    "                   asked for; no files are written without out= or --serve-out\n"
    "  --serve-out DIR  serve writes files of all processes to DIR\n"
    "  --serve-to URL   serve sends these files to a database; may be repeated\n"
    "\n"
    "Exit status: that of COMMAND; 127 if COMMAND does not exist; 126 if it cannot be run, or no profiler can be\n"
    "loaded into it; 2 if an option is wrong.\n"
    "\n"
    "Keys of -o and of DELTAPROF_CONF, with their defaults. Sizes take k M G, times ns us ms s m h; \\, is a comma.\n"
    "\n";

static bool is_key(const char *word)
{
    const struct dp_config_key *key;
    for (size_t i = 0; (key = dp_config_key(i)); i++)
        if (!strcmp(key->key, word))
            return true;
    return false;
}

/* Handles one -o. -EINVAL: the reason was printed. */
static int option(struct dp_run_text *text, const char *words)
{
    struct dp_config conf;
    struct dp_config_error error;
    dp_config_init(&conf);
    if (dp_config_parse(&conf, words, &error)) {
        if (strpbrk(words, "=,") || is_key(words))
            dp_query_print_error("run", "-o %s", error.line);
        else
            dp_query_print_error("run", "-o %s: not KEY=VALUE, did you mean -o out=%s?", words, words);
        return -EINVAL;
    }
    return dp_run_text_append(text, words);
}

/* An option of the server, with its value. -EINVAL (said); 0: it was one; 1: it is another option. */
static int serve_option(int argc, char **argv, int i, struct dp_run_beside_server *server)
{
    static const char *const names[] = {"--serve", "--serve-out", "--serve-to"};
    static const char *const needs[] = {"an ADDRESS, as 127.0.0.1:6060", "a directory", "a URL"};
    size_t which = 0;
    while (which < 3 && strcmp(argv[i], names[which]))
        which++;
    if (which == 3)
        return 1;
    if (i + 1 == argc || (which == 2 && server->n_to == DP_RUN_BESIDE_TO_MOST)) {
        dp_query_print_error("run", i + 1 == argc ? "%s needs %s" : "%s %s: no more than 8 receivers", argv[i],
                             i + 1 == argc ? needs[which] : argv[i + 1]);
        return -EINVAL;
    }
    if (which == 2)
        server->to[server->n_to++] = argv[i + 1];
    else
        *(which ? &server->out : &server->address) = argv[i + 1];
    return 0;
}

/* The options up to COMMAND, whose index goes to *first. 0, -EINVAL (said), or -ENOMEM. */
static int options(int argc, char **argv, struct dp_run_text *text, struct dp_run_beside_server *server, int *first)
{
    int i = 1, error = 0;
    for (; !error && i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--")) {
            i++;
            break;
        }
        if (!strcmp(argv[i], "--dormant")) {
            error = dp_run_text_append(text, "start=off");
            continue;
        }
        int is_other = serve_option(argc, argv, i, server);
        if (is_other < 0)
            return is_other;
        if (!is_other) {
            i++;
            continue;
        }
        if (strncmp(argv[i], "-o", 2)) {
            dp_query_print_error("run", "%s is not an option; %s", argv[i],
                                 !strncmp(argv[i], "-p", 2)
                                     ? "no program can be attached to: start it by deltaprof run --dormant, then "
                                       "deltaprof on PID"
                                     : "options of COMMAND come after it");
            return -EINVAL;
        }
        const char *words = argv[i] + 2;
        if (!*words && i + 1 < argc)
            words = argv[++i];
        error = option(text, words);
    }
    if (!error && i >= argc) {
        dp_query_print_error("run", "no COMMAND given: deltaprof run %s", dp_cli_verb("run")->arguments);
        return -EINVAL;
    }
    if (!error && !server->address && (*server->out || server->n_to)) {
        dp_query_print_error("run", "--serve-out and --serve-to need --serve ADDRESS");
        return -EINVAL;
    }
    *first = i;
    return error;
}

/* The program looked at is noted for the library, which looks at the one that it finds itself in, if it is another. */
static int set_environment(const char *library, const char *conf, const char *binary)
{
    const char *others = getenv("LD_PRELOAD");
    size_t n = strlen(library);
    char pid[24], *preload = NULL;
    bool is_first = others && !strncmp(others, library, n) && strchr(": ", others[n]);
    if (asprintf(&preload, "%s%s%s", is_first ? "" : library, others && *others && !is_first ? ":" : "",
                 others ? others : "") < 0)
        return -ENOMEM;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    time_t now = time(NULL);
    struct tm local;
    char offset[24] = "0";
    if (localtime_r(&now, &local))
        snprintf(offset, sizeof offset, "%ld", local.tm_gmtoff);
    int err = setenv("LD_PRELOAD", preload, 1) || setenv("DELTAPROF_CONF", conf, 1) ||
              setenv("DELTAPROF_RUN", pid, 1) || setenv("DELTAPROF_RUN_PROGRAM", binary, 1) ||
              setenv("DELTAPROF_UTC_OFFSET", offset, 1);
    free(preload);
    return err ? -errno : 0;
}

/* Warns about memory and waits that hooks cannot see, and says what shows them. */
static void warn(const struct dp_run_program *program, bool inside)
{
    char line[PATH_MAX + 512];
    if (dp_binary_warn(&program->elf, program->binary, inside, line, sizeof line))
        dp_query_print_error("run", "%s", line);
    if (dp_binary_warn_of_waits(&program->elf, program->binary, line, sizeof line))
        dp_query_print_error("run", "%s", line);
}

static void become(const struct dp_run_program *program, int argc, char **argv)
{
    if (!program->by_shell) {
        execv(program->path, argv);
        return;
    }
    char **shell = calloc((size_t)argc + 2, sizeof *shell);
    if (!shell)
        return;
    shell[0] = argv[0];
    shell[1] = (char *)program->path;
    memcpy(shell + 2, argv + 1, (size_t)argc * sizeof *shell);
    execv("/bin/sh", shell);
    free(shell);
}

/* The configuration table: key, what it takes and its default on one line, its meaning below. */
static void print_keys(void)
{
    const struct dp_config_key *key;
    for (size_t i = 0; (key = dp_config_key(i)); i++)
        printf("  %s=%s (default %s)\n      %s\n", key->key, key->type, key->value_default, key->help);
}

/* Before paths are made absolute: where the tables of a served family are, and no files unless they are asked for. */
static int prepare_serving(struct dp_run_text *text, const struct dp_config *conf)
{
    char own[PATH_MAX], words[PATH_MAX + 64];
    const char *what;
    int err = dp_config_given(conf, "out") ? 0 : dp_run_text_append(text, "out=none");
    if (err || dp_config_given(conf, "tables"))
        return err;
    dp_tables_place_default(own, sizeof own);
    int fd = dp_tables_place_open(own, true, &what);
    if (fd >= 0)
        close(fd);
    snprintf(words, sizeof words, "tables=%.*s/" DP_TABLES_RUN "%d", PATH_MAX - 24, own, (int)getpid());
    return dp_run_text_append(text, words);
}

/* The server's own lines go where nobody sees them, so its options are checked here as far as they can be. */
static int serve_beside(struct dp_run_beside_server *server, const struct dp_config *conf)
{
    char why[PATH_MAX + 512], out[PATH_MAX];
    if (!*conf->tables) {
        dp_query_print_error("run", "--serve needs tables=DIR, a directory in a tmpfs");
        return -EINVAL;
    }
    if (*server->out && ((mkdir(server->out, 0700) && errno != EEXIST) || !realpath(server->out, out))) {
        dp_query_print_error("run", "--serve-out %s: %s", server->out, strerror(errno));
        return -EINVAL;
    }
    server->out = *server->out ? out : "";
    server->token = conf->token;
    server->tables = conf->tables;
    int err = dp_run_beside_serve(server, why, sizeof why);
    if (err)
        fprintf(stderr, "%s\n", why);
    else
        dp_query_print_error("run", "%s", why);
    return err;
}

struct start {
    char **argv;
    int argc, first;                    /* COMMAND is argv[first] */
    struct dp_run_beside_server server; /* address NULL: none */
    struct dp_run_text text;            /* DELTAPROF_CONF of the program */
    struct dp_config conf;              /* as in text */
    struct dp_run_program program;
    char library[PATH_MAX], push_dir[DP_CONFIG_TEXT];
};

static int refuse(int status, const char *why)
{
    dp_query_print_error("run", "%s", why);
    return status;
}

/* err: a negative errno. */
static int fail(const struct start *s, int err)
{
    dp_query_print_error("run", "%s: %s", s->argv[s->first], strerror(-err));
    return DP_LAUNCH_REFUSED;
}

/* Reads the environment and the options into text and conf. 0, or an exit status after one line. */
static int read_conf(struct start *s)
{
    struct dp_config_error error;
    const char *inherited = getenv("DELTAPROF_CONF");
    dp_config_init(&s->conf);
    if (dp_config_parse(&s->conf, inherited, &error)) {
        dp_query_print_error("run", "DELTAPROF_CONF: %s", error.line);
        return DP_EXIT_USAGE;
    }
    int err = dp_run_text_append(&s->text, inherited);
    if (!err)
        err = options(s->argc, s->argv, &s->text, &s->server, &s->first);
    if (err == -EINVAL)
        return DP_EXIT_USAGE;
    if (!err && s->server.address && !dp_config_parse(&s->conf, s->text.bytes, &error))
        err = prepare_serving(&s->text, &s->conf);
    if (!err && !dp_config_parse(&s->conf, s->text.bytes, &error))
        err = dp_run_text_make_absolute(&s->text, &s->conf, !dp_config_given(&s->conf, "out") && !*s->conf.listen);
    if (err)
        return fail(s, err);
    return dp_config_parse(&s->conf, s->text.bytes, &error) ? refuse(DP_EXIT_USAGE, error.line) : 0;
}

/* Checks conf before anything is started. 0, or an exit status after one line. */
static int check_conf(struct start *s)
{
    struct dp_config_error error;
    struct dp_config_address address;
    char why[PATH_MAX + 512];
    const struct dp_config *conf = &s->conf;
    if (dp_config_check(conf, &error) || (*conf->lock_names && dp_lock_kinds_read(conf->lock_names, &error)))
        return refuse(DP_EXIT_USAGE, error.line);
    if (s->server.address && !dp_serve_address_parse(s->server.address, *conf->token, "run", "--serve", &address))
        return DP_EXIT_USAGE;
    if ((dp_config_given(conf, "out") && dp_run_text_check_out(conf, why, sizeof why)) ||
        (*conf->push && dp_run_beside_check(conf, s->push_dir, why, sizeof why)))
        return refuse(DP_EXIT_USAGE, why);
    return 0;
}

/* Finds the program and the library for it. 0, or an exit status after one line. */
static int find_files(struct start *s)
{
    char why[PATH_MAX + 512];
    int status = dp_run_program_find(&s->program, s->argv[s->first], why, sizeof why);
    if (!status && dp_run_preload_find(s->program.is_musl, s->library, why, sizeof why))
        status = DP_LAUNCH_REFUSED;
    return status ? refuse(status, why) : 0;
}

/* Starts the processes that push and serve. 0, or an exit status after one line. */
static int start_beside(struct start *s)
{
    int err = *s->conf.push ? dp_run_beside_start(&s->conf, s->push_dir) : 0;
    if (err) {
        dp_query_print_error("run", "push=%s: %s: %s", s->conf.push, s->push_dir, strerror(-err));
        return DP_LAUNCH_REFUSED;
    }
    return s->server.address && serve_beside(&s->server, &s->conf) ? DP_LAUNCH_REFUSED : 0;
}

/* Becomes the program. Returns an exit status, after one line, if that failed. */
static int execute(struct start *s)
{
    int err = set_environment(s->library, s->text.bytes ? s->text.bytes : "", s->program.binary);
    if (err)
        return fail(s, err);
    warn(&s->program, s->conf.inside);
    const char *out = dp_config_given(&s->conf, "out") ? s->conf.out : *s->conf.listen ? "" : ".";
    if (*out && !strchr(out, '%'))
        dp_recover_all(NULL, out, NULL); /* of earlier runs that were killed */
    become(&s->program, s->argc - s->first, s->argv + s->first);
    return fail(s, -errno);
}

int dp_cli_run(int argc, char **argv)
{
    static struct start s = {.server = {.out = ""}};
    s.argc = argc;
    s.argv = argv;
    if (dp_cli_help(argc, argv, about)) {
        print_keys();
        return 0;
    }
    int status = read_conf(&s);
    status = status ? status : check_conf(&s);
    status = status ? status : find_files(&s);
    status = status ? status : start_beside(&s);
    status = status ? status : execute(&s);
    free(s.text.bytes);
    return status;
}
