/* SPDX-License-Identifier: MIT */
/* tool/push/push_options.c - reads the command line. Secrets are in files: options name the file and never have the
 * secret. */
#include "tool/push/push_options.h"

#include "base/text.h"
#include "tool/push/say.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static const char help[] =
    "usage: deltaprof push DIR... --to URL [OPTION]...\n"
    "       deltaprof push --status DIR...\n"
    "\n"
    "Sends the profiles in each DIR to a profiling database. Without --once it also sends new ones as they appear,\n"
    "until SIGINT; or until SIGTERM, after which it sends what is left for up to ten seconds. DIR/.push.* records\n"
    "which files were accepted; push deletes none of them.\n"
    "\n"
    "  --to URL         pyroscope+http://HOST:PORT, parca+http://, otlp+http://, pprof+http://; or the same with\n"
    "                   https\n"
    "  --service NAME   the name of the service; default: OTEL_SERVICE_NAME, else the program's name\n"
    "  --tag KEY=VALUE  adds a tag to the profiles; OTEL_RESOURCE_ATTRIBUTES has more. KEY= without a value removes\n"
    "                   one of the tags host, pid, program. For Pyroscope and Parca KEY needs letters of ASCII\n"
    "  --fold[=REGEX]   leaves functions that only pass an allocation or a lock on out of the leaf ends of stacks, as\n"
    "                   top does; with =REGEX (POSIX extended) also functions that match\n"
    "  --token FILE     the first line of FILE is a bearer token, or USER:PASSWORD; default: the file that\n"
    "                   DELTAPROF_PUSH_TOKEN names\n"
    "  --header FILE    each line of FILE is a header `Name: value` of every request, such as X-Scope-OrgID: 1;\n"
    "                   default: the file that DELTAPROF_PUSH_HEADER names\n"
    "  --ca FILE        the certificates to trust, in PEM; default: SSL_CERT_FILE, else the system's\n"
    "  --once           send the files that exist, then end\n"
    "  --wait TIME      how long --once tries, default 1m\n"
    "  --timeout TIME   the longest time for one request, default 30s\n"
    "  --repeat         send again if no reply came: for a receiver that recognizes duplicates by their id\n"
    "  --log FILE       where messages go; default: standard error\n"
    "  --status         send nothing; print for each receiver how many files were settled, and which are set aside\n"
    "  --beside PID     end when all processes of the `deltaprof run` with this process id have ended and all files\n"
    "                   were sent\n"
    "\n"
    "Exit status: 0 if all profiles were accepted; 1 if one was not; 2 for wrong usage.\n";

enum { TO = 1, SERVICE, TAG, FOLD, TOKEN, HEADER, CA, ONCE, WAIT, TIMEOUT, REPEAT, LOG, STATUS, BESIDE, HELP };

static const struct option words[] = {
    {"to", required_argument, NULL, TO},       {"service", required_argument, NULL, SERVICE},
    {"tag", required_argument, NULL, TAG},     {"fold", optional_argument, NULL, FOLD},
    {"token", required_argument, NULL, TOKEN}, {"header", required_argument, NULL, HEADER},
    {"ca", required_argument, NULL, CA},       {"once", no_argument, NULL, ONCE},
    {"wait", required_argument, NULL, WAIT},   {"timeout", required_argument, NULL, TIMEOUT},
    {"repeat", no_argument, NULL, REPEAT},     {"log", required_argument, NULL, LOG},
    {"status", no_argument, NULL, STATUS},     {"beside", required_argument, NULL, BESIDE},
    {"help", no_argument, NULL, HELP},         {0},
};

static int refuse(const char *what, const char *why)
{
    dp_push_say("%s%s", what, why);
    return 2;
}

static int read_time(const char *name, const char *text, int64_t *ns)
{
    if (!dp_text_read_time(text, ns) && *ns >= SECOND / 100 && *ns <= 8760 * 3600 * SECOND)
        return 0;
    dp_push_say("%s %s: a time with its unit (ms s m h), from 10ms", name, text);
    return 2;
}

/* Whether the tag has a value, and no name as a label: the first bytes of its key tell. */
static bool has_no_label(const char *text)
{
    char key[16];
    size_t n = strcspn(text, "=");
    snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : (int)sizeof key, text);
    return text[n] && text[n + 1] && dp_push_tags_is_reserved(key);
}

static int set_tag(struct dp_push_tags *tags, const char *text, const char **without_label)
{
    int err = dp_push_tags_set(tags, text);
    if (has_no_label(text))
        *without_label = text;
    if (err == -EINVAL)
        dp_push_say("--tag %s: not KEY=VALUE", text);
    else if (err)
        dp_push_say("--tag %s: %s", text, err == -E2BIG ? "no more than 20 tags" : "out of memory");
    return err ? 2 : 0;
}

static int set_fold(struct dp_push_fold *fold, const char *regex)
{
    char why[200];
    if (dp_push_fold_set(fold, regex, why, sizeof why))
        return 0;
    dp_push_say("--fold=%s: %s", regex, why);
    return 2;
}

/* The option that getopt_long does not accept; `word` is the argument that it read last. */
static int refuse_option(int option, const char *word)
{
    const char letter[] = {'-', (char)optopt, 0};
    bool is_letter = optopt > HELP; /* the numbers of words are small */
    dp_push_say("%s %s; deltaprof push --help names them", is_letter ? letter : word,
                option == ':' ? "needs a value" : "is no option");
    return 2;
}

/* What is checked when all options are known. */
struct later {
    const char *url, *service, *tag_without_label;
};

static int read_one(struct dp_push_options *o, int option, const char *word, struct later *later)
{
    int64_t pid;
    switch (option) {
    case TO:
        later->url = optarg;
        return 0;
    case SERVICE:
        later->service = optarg;
        return 0;
    case TAG:
        return set_tag(&o->tags, optarg, &later->tag_without_label);
    case FOLD:
        return set_fold(&o->fold, optarg);
    case TOKEN:
        o->token_file = optarg;
        return 0;
    case HEADER:
        o->header_file = optarg;
        return 0;
    case CA:
        o->ca_file = optarg;
        return 0;
    case LOG:
        o->log_file = optarg;
        dp_push_say_to(o->log_file); /* `run` started this process: no user reads its standard error */
        return 0;
    case ONCE:
        o->is_once = true;
        return 0;
    case REPEAT:
        o->repeats = true;
        return 0;
    case STATUS:
        o->is_status = true;
        return 0;
    case WAIT:
        return read_time("--wait", optarg, &o->wait_ns);
    case TIMEOUT:
        return read_time("--timeout", optarg, &o->timeout_ns);
    case BESIDE:
        if (dp_text_read_count(optarg, &pid) || pid < 1 || pid > INT32_MAX)
            return refuse("--beside needs a process id, a number from 1 on, not ", optarg);
        o->beside = (pid_t)pid;
        return 0;
    default:
        return refuse_option(option, word);
    }
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int check(struct dp_push_options *o, const struct later *later)
{
    char why[1200];
    const char *url = later->url, *service = later->service;
    const char *const files[] = {o->token_file, o->header_file, o->ca_file};
    if (!o->n_dirs)
        return refuse("no DIR given: deltaprof push DIR... --to URL", "");
    if (o->is_status)
        return url ? refuse("--status and --to: --status shows all receivers", "") : 0;
    if (!url)
        return refuse("no --to URL given; it begins with pyroscope+http://, parca+http://, otlp+http:// or "
                      "pprof+http://, or these with https",
                      "");
    if (dp_push_target_parse(&o->target, url, why, sizeof why))
        return refuse(why, "");
    bool has_labels = o->target.protocol == DP_PUSH_PYROSCOPE || o->target.protocol == DP_PUSH_PARCA;
    if (has_labels && later->tag_without_label) {
        dp_push_say("--tag %s: the key makes no label, which has letters and digits of ASCII and _, and does not begin "
                    "with __",
                    later->tag_without_label);
        return 2;
    }
    if (service) {
        snprintf(why, sizeof why, "service.name=%s", service);
        if (dp_push_tags_set(&o->tags, why))
            return refuse("out of memory", "");
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] && access(files[i], R_OK)) {
            dp_push_say("%s: %s", files[i], strerror(errno));
            return 2;
        }
    if (o->tags.n_skipped)
        dp_push_say("OTEL_RESOURCE_ATTRIBUTES: its last %zu tags are left out, since no more than %d fit",
                    o->tags.n_skipped, DP_PUSH_MOST_GIVEN);
    if (o->tags.n > DP_PUSH_MOST_GIVEN)
        return refuse("no more than 20 tags", "");
    return 0;
}

/* Keeps the first name of each directory that has several: another path, or one through a symbolic link. */
static void drop_same(struct dp_push_options *o)
{
    struct stat st, kept_st;
    size_t n = 0;
    for (size_t i = 0; i < o->n_dirs; i++) {
        bool is_same = false;
        for (size_t k = 0; k < n && !is_same; k++)
            is_same = !stat(o->dirs[i], &st) && !stat(o->dirs[k], &kept_st) && st.st_dev == kept_st.st_dev &&
                      st.st_ino == kept_st.st_ino;
        if (!is_same)
            o->dirs[n++] = o->dirs[i];
    }
    o->n_dirs = n;
}

int dp_push_options_read(struct dp_push_options *o, int argc, char **argv)
{
    struct later later = {0};
    *o = (struct dp_push_options){.timeout_ns = 30 * SECOND, .wait_ns = 60 * SECOND};
    o->token_file = environment("DELTAPROF_PUSH_TOKEN");
    o->header_file = environment("DELTAPROF_PUSH_HEADER");
    o->ca_file = environment("SSL_CERT_FILE");
    if (dp_push_tags_environment(&o->tags))
        return refuse("out of memory", "");
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", words, NULL)) != -1;) {
        if (option == HELP || option == 'h') {
            fputs(help, stdout);
            return 1;
        }
        int status = read_one(o, option, argv[optind - 1], &later);
        if (status)
            return status;
    }
    o->dirs = argv + optind;
    o->n_dirs = (size_t)(argc - optind);
    drop_same(o);
    return check(o, &later);
}
