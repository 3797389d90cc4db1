/* SPDX-License-Identifier: MIT */
/* tool/query/query.c - common to the verbs that show profiles: reads their options and files, chooses the sample type.
 */
#include "tool/query/query.h"

#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/query/at.h"
#include "profile/kinds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dp_query_init(struct dp_query *v, const char *verb, int argc)
{
    *v = (struct dp_query){.verb = verb, .limit_bytes = DP_DECODE_LIMIT};
    v->labels = calloc((size_t)argc + 1, sizeof *v->labels);
    if (v->labels)
        return dp_query_filter_list(v);
    dp_query_print_error(verb, "out of memory");
    return DP_EXIT_FAILED;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int take_label(struct dp_query *v, char *text)
{
    if (!strchr(text, '=')) {
        dp_query_print_error(v->verb, "--label %s is not KEY=VALUE", text);
        return DP_EXIT_USAGE;
    }
    v->labels[v->n_labels++] = text;
    v->tells_process |= !strncmp(text, DP_QUERY_PROCESS "=", strlen(DP_QUERY_PROCESS "="));
    v->merge.with_inherited |= !strcmp(text, DP_MERGE_FORK "=" DP_MERGE_INHERITED);
    return 0;
}

static int take_names(struct dp_query *v, const char *text)
{
    v->full = !strcmp(text, "full");
    if (v->full || !strcmp(text, "short"))
        return 0;
    dp_query_print_error(v->verb, "--names %s: short or full", text);
    return DP_EXIT_USAGE;
}

int dp_query_option(struct dp_query *v, char **argv, int option)
{
    switch (option) {
    case DP_QUERY_OPTION_TYPE:
        v->type_name = optarg;
        return 0;
    case DP_QUERY_OPTION_KIND:
        v->kind = optarg;
        return 0;
    case DP_QUERY_OPTION_LABEL:
        return take_label(v, optarg);
    case DP_QUERY_OPTION_FOCUS:
        return dp_query_filter(v, DP_QUERY_FOCUS, "--focus", optarg);
    case DP_QUERY_OPTION_IGNORE:
        return dp_query_filter(v, DP_QUERY_IGNORE, "--ignore", optarg);
    case DP_QUERY_OPTION_HIDE:
        return dp_query_filter(v, DP_QUERY_HIDE, "--hide", optarg);
    case DP_QUERY_OPTION_FOLD:
        return dp_query_filter_fold(v, optarg);
    case DP_QUERY_OPTION_RAW:
        v->raw = true;
        return 0;
    case DP_QUERY_OPTION_NO_IDLE:
        v->without_idle = true;
        return 0;
    case DP_QUERY_OPTION_NAMES:
        return take_names(v, optarg);
    case DP_QUERY_OPTION_AT:
        v->at_text = optarg;
        return dp_query_at_parse(v->verb, optarg, &v->at);
    case DP_QUERY_OPTION_INHERITED:
        v->merge.with_inherited = true;
        return 0;
    case DP_QUERY_OPTION_JSON:
        v->json = true;
        return 0;
    case DP_QUERY_OPTION_LIMIT:
        return dp_query_limit(v->verb, optarg, &v->limit_bytes);
    case DP_QUERY_OPTION_COLOUR:
        return dp_query_print_colour_option(v->verb, optarg);
    default:
        return dp_query_bad_option(argv, option);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

/*
 * Adds the name of the program: PROGRAM in the file's name, else the base name of the first mapping. The mapping is the
 * second choice, because after a start through a symbolic link it has the name of the link's target.
 */
static int add_program(struct dp_strings *programs, const char *path, const struct dp_decode *d)
{
    size_t n_bytes = 0;
    const char *program = dp_query_file_program(path, &n_bytes);
    if (!programs->offsets.n && dp_strings_add(programs, "", 0) == DP_STRINGS_NONE)
        return -ENOMEM;
    if (!n_bytes && d->mappings.n) {
        program = dp_decode_text(d, d->mappings.at[0].file, &n_bytes);
        const char *slash = program && n_bytes ? memrchr(program, '/', n_bytes) : NULL;
        if (slash) {
            n_bytes -= (size_t)(slash + 1 - program);
            program = slash + 1;
        }
    }
    return n_bytes && dp_strings_add(programs, program, n_bytes) == DP_STRINGS_NONE ? -ENOMEM : 0;
}

int dp_query_open(struct dp_query *v, size_t i, struct dp_query_source *own, struct dp_query_source **source)
{
    bool is_input = !strcmp(v->paths.at[i], "-");
    *source = is_input ? &v->input : own;
    if (is_input && v->input.decode.bytes)
        return 0;
    return dp_query_read_file(v->verb, v->paths.at[i], v->limit_bytes, *source);
}

int dp_query_set_process(struct dp_query *v, const char *path, uint64_t pid_stamp)
{
    char name[160], pid[DP_QUERY_PID_BYTES];
    struct dp_query_file file = {.pid_stamp = pid_stamp};
    const char *slash = strrchr(path, '/');
    if (!v->tells_process)
        return 0;
    if (dp_query_file_parse(path, &file)) {
        dp_query_file_print_pid(&file, pid);
        snprintf(name, sizeof name, "%.*s %s", (int)(file.n_program < 100 ? file.n_program : 100), file.program, pid);
    } else {
        snprintf(name, sizeof name, "%.150s", slash ? slash + 1 : path);
    }
    return dp_model_set_label(&v->merge.model, DP_QUERY_PROCESS, name);
}

/* Adds the file of path i to what is shown. parts: room for those of any file. */
static int add_file(struct dp_query *v, size_t i, const struct dp_decode *d, struct dp_decode_error *error)
{
    const struct dp_query_moments *ms = &v->moments;
    if (dp_query_set_process(v, v->paths.at[i], i < ms->pid_stamp.n ? ms->pid_stamp.at[i] : 0))
        return -ENOMEM;
    if (ms->is_whole)
        return dp_model_merge_add_whole(&v->merge, d, error);
    size_t n = ms->first.at[i + 1] - ms->first.at[i];
    struct dp_model_merge_part *parts = calloc(n + 1, sizeof *parts);
    if (!parts)
        return -ENOMEM;
    for (size_t j = 0; j < n; j++)
        parts[j] = ms->at.at[ms->first.at[i] + j].part;
    int err = dp_model_merge_add(&v->merge, d, parts, n, error);
    free(parts);
    return err;
}

/* Whether the time that was asked for leaves out the file of path i. */
static bool is_of_other_time(const struct dp_query *v, size_t i)
{
    bool counts = v->moments.is_whole || !v->at_text || v->merge.keeps_moments;
    for (size_t j = counts ? 0 : v->moments.first.at[i]; !counts && j < v->moments.first.at[i + 1]; j++)
        counts = v->moments.at.at[j].part.counts;
    return !counts;
}

/* Whether the levels in the file of path i are shown. */
static bool counts_levels(const struct dp_query *v, size_t i)
{
    bool counts = v->moments.is_whole;
    for (size_t j = counts ? 0 : v->moments.first.at[i]; !counts && j < v->moments.first.at[i + 1]; j++)
        counts = v->moments.at.at[j].part.counts;
    return counts;
}

/* Whether losses are counted in the file of path i: they are those since its process began. */
static bool counts_losses(const struct dp_query *v, size_t i)
{
    return v->at_text || i >= v->moments.is_newest.n || v->moments.is_newest.at[i];
}

/* Adds the profile of path i, which was read. */
static int add_opened(struct dp_query *v, size_t i, const struct dp_decode *d, struct dp_decode_error *error)
{
    int err = add_file(v, i, d, error);
    if (!err && counts_levels(v, i))
        dp_query_free_add(&v->free, d);
    if (!err)
        err = add_program(&v->programs, v->paths.at[i], d);
    if (err || !counts_losses(v, i))
        return err;
    return dp_query_losses_add(v, d);
}

/* 0 for no error; else a status: DP_QUERY_BROKEN, or one after one line. */
static int status_of(int err, const struct dp_query *v, size_t i, bool is_quiet, const struct dp_decode_error *error)
{
    if (!err)
        return 0;
    return err != -ENOMEM && is_quiet ? DP_QUERY_BROKEN : dp_query_refuse(v->verb, v->paths.at[i], err, error);
}

static int read_files(struct dp_query *v)
{
    struct dp_query_source own = {.is_quiet = dp_query_may_skip(v)}, *source;
    int status = 0;
    v->all_tell_allocated = true;
    for (size_t i = 0; i < v->paths.n && !status; i++) {
        struct dp_decode_error error = {"out of memory"};
        if (is_of_other_time(v, i))
            continue;
        dp_query_print_progress(v->verb, i, v->paths.n);
        status = dp_query_open(v, i, &own, &source);
        if (!status)
            status = status_of(add_opened(v, i, &source->decode, &error), v, i, own.is_quiet, &error);
    }
    dp_query_print_progress(v->verb, 1, 1);
    if (!status && dp_query_losses_sum(v)) {
        dp_query_print_error(v->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    v->merge.goes_on = v->moments.n_ended < v->moments.n_processes;
    dp_query_source_fini(&own);
    return status;
}

/* ---- type and labels -------------------------------------------------------------------------------------------- */

/* The usual type has no value because nothing is in use: shows what was allocated, if anything was. */
static void fall_back(struct dp_query *v)
{
    const struct dp_model *m = &v->merge.model;
    size_t other = dp_model_type_named(m, "alloc_space");
    if (!v->falls_back || v->type_name || v->at_text || other == m->types.n ||
        !dp_model_merge_is_state(&v->merge, v->type))
        return;
    bool has_other = false;
    for (uint32_t row = 0; row < m->rows.n; row++) {
        if (dp_query_value(v, row))
            return;
        has_other |= v->merge.values.at[row * m->types.n + other] != 0;
    }
    v->is_fallback = has_other;
    v->type = has_other ? other : v->type;
}

/* Chooses the type: the one asked for, else the profile's default, else its last. 0 or DP_EXIT_FAILED. */
static int choose_type(struct dp_query *v)
{
    const struct dp_model *m = &v->merge.model;
    const char *wanted = v->type_name;
    if (!wanted && v->preferred && dp_model_type_named(m, v->preferred) < m->types.n)
        wanted = v->preferred;
    if (!wanted && v->merge.header.default_type)
        wanted = dp_model_text(m, v->merge.header.default_type);
    v->type = wanted ? dp_model_type_named(m, wanted) : m->types.n;
    if (v->type < m->types.n)
        return 0;
    v->type = m->types.n ? m->types.n - 1 : 0;
    if (!v->type_name && m->types.n)
        return 0;
    char types[256];
    dp_model_type_names(m, types, sizeof types);
    dp_query_print_error(v->verb, "%s: no sample type %s; it has: %s%s%s", dp_query_file_name(v->paths.at[0]),
                         wanted ? wanted : "at all", types,
                         *v->paths.others ? "; other profiles are here too: --kind " : "", v->paths.others);
    return DP_EXIT_FAILED;
}

bool dp_query_may_skip(const struct dp_query *v)
{
    return !v->strict && !v->is_sifted && dp_query_may_sift(&v->paths);
}

void dp_query_set_naming(struct dp_query *v)
{
    v->frames.model = &v->merge.model;
    v->frames.full = v->full;
    for (int i = 0; i < 2; i++)
        v->frames.folds[i] = v->has_filter[DP_QUERY_FOLD + i] ? &v->filters[DP_QUERY_FOLD + i] : NULL;
}

static int read_chosen(struct dp_query *v)
{
    int status = dp_query_at_choose(v);
    return status ? status : read_files(v);
}

/* Frees what was read from files. */
static void free_content(struct dp_query *v)
{
    dp_model_merge_fini(&v->merge);
    dp_strings_fini(&v->programs);
    dp_strings_fini(&v->losses);
    dp_strings_fini(&v->lost);
    dp_vec_fini(&v->n_lost);
    dp_query_naming_frames_fini(&v->frames);
}

int dp_query_restart(struct dp_query *v)
{
    bool with_inherited = v->merge.with_inherited, keeps_moments = v->merge.keeps_moments;
    free_content(v);
    v->frames = (struct dp_query_naming_frames){.model = NULL};
    v->merge = (struct dp_model_merge){.with_inherited = with_inherited, .keeps_moments = keeps_moments};
    v->programs = v->losses = (struct dp_strings){.offsets = {0}};
    v->allocated = 0;
    v->free = (struct dp_query_free){0};
    size_t n_before = v->paths.n;
    int status = dp_query_skip_broken(&v->paths, v->verb, v->limit_bytes);
    v->is_sifted = v->paths.n == n_before;
    return status;
}

/*
 * Profiles of one directory may have different types (types=waste, age=on). For a type that only some of them have,
 * drops the paths of the others. If none has it, all paths stay, for the message that says so.
 */
static int keep_with_type(struct dp_query *v, const char *type)
{
    struct dp_query_source source = {.is_quiet = true};
    size_t n = 0, n_with = 0, n_last_without = 0;
    bool *has = type && dp_kind_type_is_on_demand(type) && dp_query_may_sift(&v->paths)
                    ? calloc(v->paths.n, sizeof *has)
                    : NULL;
    if (!has)
        return 0;
    for (size_t i = 0; i < v->paths.n; i++) {
        has[i] = dp_query_read_file(v->verb, v->paths.at[i], v->limit_bytes, &source) || /* it is named later */
                 dp_decode_type_named(&source.decode, type) < source.decode.types.n;
        n_with += has[i];
        n_last_without += !has[i] && dp_model_merge_says(&source.decode, DP_COMMENT_ENDED);
    }
    v->n_last_without = n_with ? n_last_without : 0;
    dp_query_source_fini(&source);
    for (size_t i = 0; i < v->paths.n && n_with; i++)
        if (has[i])
            v->paths.at[n++] = v->paths.at[i];
        else
            free(v->paths.at[i]);
    v->paths.n = n_with ? n : v->paths.n;
    free(has);
    return 0;
}

int dp_query_read(struct dp_query *v, char **paths, size_t n)
{
    v->argument = paths[0];
    int status = dp_query_paths_add_all(&v->paths, v->verb, paths, n);
    if (!status)
        status = dp_query_paths_choose(&v->paths, v->verb, v->kind, v->type_name ? v->type_name : v->preferred);
    if (!status)
        status = keep_with_type(v, v->needed ? v->needed : v->type_name);
    if (!status)
        status = read_chosen(v);
    while (status == DP_QUERY_BROKEN) {
        status = dp_query_restart(v);
        if (!status)
            status = read_chosen(v);
    }
    if (!status && dp_model_merge_choose(&v->merge)) {
        dp_query_print_error(v->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    if (!status)
        status = choose_type(v);
    if (!status)
        fall_back(v);
    if (!status)
        status = dp_query_check_labels(v);
    dp_query_set_naming(v);
    return status;
}

void dp_query_same(struct dp_query *to, const struct dp_query *v)
{
    *to = *v;
    to->merge = (struct dp_model_merge){.with_inherited = v->merge.with_inherited};
}

void dp_query_same_fini(struct dp_query *v)
{
    dp_query_paths_fini(&v->paths);
    dp_query_moments_fini(&v->moments);
    dp_query_source_fini(&v->input);
    free_content(v);
    dp_vec_fini(&v->stack);
}

void dp_query_fini(struct dp_query *v)
{
    for (size_t i = 0; i < sizeof v->filters / sizeof *v->filters; i++)
        if (v->has_filter[i])
            regfree(&v->filters[i]);
    dp_query_same_fini(v);
    free(v->labels);
}
