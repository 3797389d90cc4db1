/* SPDX-License-Identifier: MIT */
/*
 * tool/query/query.h - the common part of the verbs that show profiles: options, files, sample type, and which frames
 * of which rows are shown.
 */
#pragma once

#include "tool/query/frame_names.h"
#include "tool/query/files.h"
#include "tool/query/free_memory.h"
#include "tool/query/moments.h"
#include "tool/query/paths.h"
#include "tool/query/print.h"

#include <getopt.h>

#define DP_QUERY_PROCESS  "process"
#define DP_QUERY_PROFILER "[deltaprof]" /* the frame of the profiler's own CPU time */

/* Of which time in-use values are. The usual one: now if a process still runs, else the peak. */
enum {
    DP_QUERY_AT_USUAL,
    DP_QUERY_AT_PEAK,
    DP_QUERY_AT_END,
    DP_QUERY_AT_LAST,
    DP_QUERY_AT_TIME,
    DP_QUERY_AT_NOW, /* not an option: is what usual became */
};

/* Regular expressions of the user: three of options, then --fold, then the user's list of functions to fold. */
enum { DP_QUERY_FOCUS, DP_QUERY_IGNORE, DP_QUERY_HIDE, DP_QUERY_FOLD, DP_QUERY_FOLD_LIST, DP_QUERY_FILTERS };

struct dp_query {
    const char *verb;

    /* Options. */
    const char *type_name, *kind;
    char **labels; /* KEY=VALUE: only rows that have them all */
    size_t n_labels;
    regex_t filters[DP_QUERY_FILTERS];
    bool has_filter[DP_QUERY_FILTERS];
    bool raw, full, json;
    bool without_idle;    /* leaves out threads that wait for work to come */
    bool tells_process;   /* samples get the label DP_QUERY_PROCESS, "PROGRAM PID" */
    bool shows_processes; /* the caller's: stacks are the processes that have them */
    bool falls_back;      /* the caller's: if nothing is in use, the usual type is alloc_space */
    bool strict;          /* the caller's: a broken file is an error, also among others */
    int at;               /* DP_QUERY_AT_; without at_text, flows are those of all files */
    const char *at_text;
    size_t limit_bytes;
    const char *argument; /* the first path as the user wrote it */
    const char *needed; /* the caller's: another type that each heap profile must have, else it is left out; or NULL */
    const char *preferred; /* the type to show where the user names none, if the profile has it; or NULL */

    /* After dp_query_read. */
    struct dp_query_paths paths;
    bool is_sifted;        /* no more files can be left out */
    size_t n_last_without; /* of the files without the type `needed`, those that are the last of their process */
    struct dp_query_moments moments;
    struct dp_query_source input; /* standard input, which is read once */
    struct dp_model_merge merge;
    struct dp_strings programs; /* names of the main ones; 0 is "" */
    struct dp_strings losses;   /* "NUMBER WORDS" of losses, summed over processes; 0 is "" */
    struct dp_strings lost;     /* WORDS; 0 is "" */
    DP_VEC(int64_t) n_lost;     /* by lost: NUMBER */
    size_t type;
    bool is_fallback; /* nothing is in use: type is another one than usual */
    struct dp_query_naming_frames frames;
    struct dp_query_free free; /* of the processes whose memory in use is shown */
    int64_t allocated;         /* exact number of bytes that all processes allocated; 0: not all files have it */
    bool all_tell_allocated;   /* until dp_query_losses_sum */

    /* The frames of the row of the last dp_query_row, the leaf first. */
    DP_VEC(uint32_t) stack;
};

/* For getopt_long: the options that all of these verbs take; options of a verb itself are below 256. */
enum {
    DP_QUERY_OPTION_TYPE = 256,
    DP_QUERY_OPTION_KIND,
    DP_QUERY_OPTION_LABEL,
    DP_QUERY_OPTION_FOCUS,
    DP_QUERY_OPTION_IGNORE,
    DP_QUERY_OPTION_HIDE,
    DP_QUERY_OPTION_FOLD,
    DP_QUERY_OPTION_RAW,
    DP_QUERY_OPTION_NO_IDLE,
    DP_QUERY_OPTION_NAMES,
    DP_QUERY_OPTION_AT,
    DP_QUERY_OPTION_INHERITED,
    DP_QUERY_OPTION_JSON,
    DP_QUERY_OPTION_LIMIT,
    DP_QUERY_OPTION_COLOUR,
};
#define DP_QUERY_OPTIONS                                                                                              \
    {"type", required_argument, NULL, DP_QUERY_OPTION_TYPE}, {"kind", required_argument, NULL, DP_QUERY_OPTION_KIND}, \
        {"label", required_argument, NULL, DP_QUERY_OPTION_LABEL},                                                    \
        {"focus", required_argument, NULL, DP_QUERY_OPTION_FOCUS},                                                    \
        {"ignore", required_argument, NULL, DP_QUERY_OPTION_IGNORE},                                                  \
        {"hide", required_argument, NULL, DP_QUERY_OPTION_HIDE},                                                      \
        {"fold", required_argument, NULL, DP_QUERY_OPTION_FOLD}, {"raw", no_argument, NULL, DP_QUERY_OPTION_RAW},     \
        {"no-idle", no_argument, NULL, DP_QUERY_OPTION_NO_IDLE},                                                      \
        {"names", required_argument, NULL, DP_QUERY_OPTION_NAMES},                                                    \
        {"at", required_argument, NULL, DP_QUERY_OPTION_AT},                                                          \
        {"inherited", no_argument, NULL, DP_QUERY_OPTION_INHERITED},                                                  \
        {"json", no_argument, NULL, DP_QUERY_OPTION_JSON}, {"limit", required_argument, NULL, DP_QUERY_OPTION_LIMIT}, \
        DP_COLOUR_OPTION(DP_QUERY_OPTION_COLOUR),                                                                     \
    {                                                                                                                 \
        0                                                                                                             \
    }

/* Their help; a verb leaves out the parts of options that it refuses or does not need. */
#define DP_QUERY_HELP_TYPE                                                                                          \
    "  --type TYPE       sample type, such as alloc_space (default: the profile's own default, else its last)\n"    \
    "  --kind KIND       which profiles of a directory: heap, block, mutex, chain, cpu, wall or events (default:\n" \
    "                    those that have TYPE, else heap)\n"
#define DP_QUERY_HELP_LABEL                                                                                            \
    "  --label KEY=VALUE only samples with this label; if given more than once, only samples with all of them.\n"      \
    "                    process=\"PROGRAM PID\" are those of one process, \"PROGRAM PID/XXXX\" if several had that\n" \
    "                    PID, as in two containers; the table of top by process shows them\n"
#define DP_QUERY_HELP_IDLE                                                                                        \
    "  --no-idle         leave out threads that wait for work: for a condition, a semaphore or another thread's " \
    "end,\n"                                                                                                      \
    "                    and in wall profiles in epoll_wait, accept, or poll of several descriptors\n"
#define DP_QUERY_HELP_STACKS                                                                                          \
    "  --focus REGEX     only stacks with a function, file or library that matches (POSIX extended)\n"                \
    "  --ignore REGEX    only stacks without a function, file or library that matches\n"                              \
    "  --hide REGEX      leave functions that match out of the stacks\n"                                              \
    "  --fold REGEX      show functions that match as a part of their caller, because they only pass an allocation\n" \
    "                    or a lock on. operator new, xmalloc, g_mutex_lock and many others, and a language's own\n"   \
    "                    library (std::, core::, importlib), are folded without this option.\n"                       \
    "                    @FILE has one REGEX a line.\n"                                                               \
    "                    $XDG_CONFIG_HOME/deltaprof/fold (or ~/.config/deltaprof/fold) is always read\n"              \
    "  --raw             fold nothing; also show the native frames of the interpreter that start it, and those\n"     \
    "                    between two functions of its language (Python, Lua)\n"                                       \
    "  --names WHICH     short (default): C++ names without parameters and nested template arguments; or full\n"
#define DP_QUERY_HELP_AT                                                                                              \
    "  --at WHEN         memory in use at this time: peak (when most was in use), end (before the exit handlers of\n" \
    "                    processes that ended), last (after them), or HH:MM:SS or YYYY-MM-DD HH:MM:SS. Other types\n" \
    "                    are then those of the files of that time (default: see above)\n"
#define DP_QUERY_HELP_INHERITED                                                                                       \
    "  --inherited       also add, in a sum over processes, the memory that a process inherited at its fork (label\n" \
    "                    fork=inherited)\n"
#define DP_QUERY_HELP_JSON  "  --json            one JSON object; sizes are bytes, times are ns\n"
#define DP_QUERY_HELP_LIMIT "  --limit BYTES     the largest size of a FILE after decompression (k M G; default 1G)\n"
#define DP_QUERY_HELP                                                                               \
    DP_QUERY_HELP_TYPE DP_QUERY_HELP_LABEL DP_QUERY_HELP_IDLE DP_QUERY_HELP_STACKS DP_QUERY_HELP_AT \
        DP_QUERY_HELP_INHERITED DP_QUERY_HELP_JSON DP_QUERY_HELP_LIMIT DP_COLOUR_HELP

/* Room for as many labels as there are arguments. 0, or DP_EXIT_FAILED after one line. */
int dp_query_init(struct dp_query *, const char *verb, int argc);
/* Takes one option of DP_QUERY_OPTIONS, or prints what is wrong with it. 0 or DP_EXIT_USAGE. */
int dp_query_option(struct dp_query *, char **argv, int option);

/* Takes a regular expression for one of filters; --fold, which may be @FILE; the user's list, if there is one. */
int dp_query_filter(struct dp_query *, int which, const char *option, const char *text);
int dp_query_filter_fold(struct dp_query *, const char *text);
int dp_query_filter_list(struct dp_query *);

/*
 * Reads the profiles that the paths name, and determines type and labels. 0, or DP_EXIT_FAILED after one line, also for
 * a type or label that no profile has.
 */
int dp_query_read(struct dp_query *, char **paths, size_t n);
/* Whether broken files may be left out; and the naming of frames as the options want it. */
bool dp_query_may_skip(const struct dp_query *);
void dp_query_set_naming(struct dp_query *);
/* After DP_QUERY_BROKEN: leaves out the broken files, and forgets what was read of the others. 0 or DP_EXIT_FAILED. */
int dp_query_restart(struct dp_query *);
/* Gives the samples of the file that is added next the label of its process. pid_stamp: files.h. 0 or -ENOMEM. */
int dp_query_set_process(struct dp_query *, const char *path, uint64_t pid_stamp);
/* Reads and scans path i into `own`, except for standard input, which is kept; *source is what has it. A status. */
int dp_query_open(struct dp_query *, size_t i, struct dp_query_source *own, struct dp_query_source **source);
/* Adds what the comments of a process's newest file count; at the end fills `losses` with the sums. 0 or -ENOMEM. */
int dp_query_losses_add(struct dp_query *, const struct dp_decode *);
int dp_query_losses_sum(struct dp_query *);
void dp_query_fini(struct dp_query *);

/* Another view with the options of v, which must outlive it; and its end. */
void dp_query_same(struct dp_query *to, const struct dp_query *v);
void dp_query_same_fini(struct dp_query *);

/* The value of a row in the type that is shown. */
static inline int64_t dp_query_value(const struct dp_query *v, uint32_t row)
{
    return v->merge.values.at[row * v->merge.model.types.n + v->type];
}

static inline const char *dp_query_unit(const struct dp_query *v)
{
    return dp_model_text(&v->merge.model, v->merge.model.types.at[v->type].unit);
}

static inline const char *dp_query_type(const struct dp_query *v)
{
    return dp_model_text(&v->merge.model, v->merge.model.types.at[v->type].type);
}

/*
 * Fills v->stack with the frames of a row that are shown. 1; 0: the row is not shown; -ENOMEM. A row without a stack
 * has the frame [no stack].
 */
int dp_query_row(struct dp_query *, uint32_t row);
/* Whether options were given that may leave samples out: --label, --no-idle, --focus, --ignore, --hide. */
static inline bool dp_query_filters(const struct dp_query *v)
{
    bool any = v->n_labels > 0 || v->without_idle;
    for (int i = 0; i < DP_QUERY_FOLD; i++)
        any |= v->has_filter[i];
    return any;
}

/*
 * The same for one end of a chain: the stack of the waiter, or of the holder, each the leaf first. A filter looks at
 * both ends. 0 also of a row that is no chain.
 */
enum dp_query_end { DP_QUERY_WAITER, DP_QUERY_HOLDER };
int dp_query_chain(struct dp_query *, uint32_t row, enum dp_query_end);
/* Whether the row has all labels that were asked for, and is not to be left out as idle. */
bool dp_query_has_labels(const struct dp_query *, uint32_t row);
/* 0, or DP_EXIT_FAILED after one line: no sample has a label of that key. After dp_query_read. */
int dp_query_check_key(const struct dp_query *, const char *key);
/* The same for the labels of v->labels. */
int dp_query_check_labels(const struct dp_query *);
/* The value of a row's label KEY as text; NULL: it has none. Good until the next call. */
const char *dp_query_label_value(const struct dp_model *, uint32_t row, const char *key, char number[32]);
