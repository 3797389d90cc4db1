/* SPDX-License-Identifier: MIT */
/*
 * tool/rss/profile_parts.c - reads the parts of resident memory in the comments of a heap profile: #RssAnon=BYTES,
 * #RssTotal=BYTES and, for each part, "#RssPart NAME=BYTES".
 */
#include "tool/query/print.h"
#include "profile/comments.h"
#include "profile/file_name.h"
#include "profile/kinds.h"
#include "tool/query/files.h"
#include "tool/query/paths.h"
#include "tool/rss/rss.h"

#include "base/process.h"
#include "config/config.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Adds the part in a comment. *has_parts: set if it is one. False: out of memory. */
static bool add_part(struct dp_rss *rss, const char *text, size_t n, bool *has_parts)
{
    char name[DP_RSS_NAME];
    const char *at;
    size_t n_name;
    int64_t bytes;
    if (!dp_profile_comment_part(text, n, DP_COMMENT_RSS_PART, &at, &n_name, &bytes) || n_name >= sizeof name)
        return true;
    memcpy(name, at, n_name);
    name[n_name] = '\0';
    *has_parts = true;
    return dp_rss_add(rss, name, bytes);
}

static bool take_comments(struct dp_rss *rss, const struct dp_decode *d, bool *has_resident, bool *has_parts)
{
    bool ok = true;
    int64_t value, total = 0, anonymous = 0;
    for (size_t i = 0; i < d->comments.n && ok; i++) {
        size_t n;
        const char *text = dp_decode_text(d, d->comments.at[i], &n);
        if (dp_profile_comment_number(text, n, DP_COMMENT_RSS_TOTAL, &value))
            total = value;
        else if (dp_profile_comment_number(text, n, DP_COMMENT_RSS_ANON, &value))
            anonymous = value;
        else if (dp_profile_comment_number(text, n, DP_COMMENT_RSS_ERROR, &value))
            rss->error_bytes += value;
        else if (dp_profile_comment_number(text, n, DP_COMMENT_RSS_ABSENT, &value))
            rss->absent_bytes += value;
        else
            ok = add_part(rss, text, n, has_parts);
    }
    rss->anonymous_bytes += anonymous;
    rss->file_bytes += total - anonymous;
    *has_resident = total > 0;
    return ok;
}

/* Whether a sample belongs to malloc: others have a label `heap`. */
static bool is_of_malloc(const struct dp_decode *d, const struct dp_decode_sample *sample)
{
    for (size_t i = 0; i < sample->labels.n; i++)
        if (dp_decode_is_text(d, sample->labels.at[i].key, "heap"))
            return false;
    return true;
}

/* The memory in use in malloc's samples, for a profile without parts. */
static int sum_inuse(const struct dp_decode *d, int64_t *sum, struct dp_decode_error *error)
{
    size_t type = dp_decode_type_named(d, "inuse_space");
    struct dp_decode_sample sample = {.values = {0}};
    int err = 0;
    for (size_t i = 0; i < d->samples.n && !err && type < d->types.n; i++) {
        err = dp_decode_sample(d, i, &sample, error);
        if (!err && is_of_malloc(d, &sample))
            dp_model_merge_sum(sum, sample.values.at[type]);
    }
    dp_decode_sample_fini(&sample);
    return err;
}

static int take_profile(struct dp_rss *rss, const char *path, const struct dp_decode *d)
{
    struct dp_decode_error error;
    int64_t in_use = 0, of_others = rss->anonymous_bytes;
    bool has_resident, has_parts = false;
    int err = sum_inuse(d, &in_use, &error);
    if (err)
        return dp_query_refuse("rss", path, err, &error);
    if (!take_comments(rss, d, &has_resident, &has_parts)) {
        dp_query_print_error("rss", "out of memory");
        return DP_EXIT_FAILED;
    }
    if (!has_resident) {
        dp_query_print_error(
            "rss", "%s has no resident memory (#RssTotal): ticks of a living process have it, its last profile seldom",
            path);
        return DP_EXIT_FAILED;
    }
    rss->is_profiled = true;
    rss->n_profiles++;
    rss->time_ns = d->time_ns + d->duration_ns;
    if (has_parts)
        in_use = 0; /* it is one of them */
    if (in_use > rss->anonymous_bytes - of_others)
        in_use = rss->anonymous_bytes - of_others;
    return dp_rss_add(rss, DP_RSS_IN_USE, in_use) ? 0 : DP_EXIT_FAILED;
}

/*
 * Reads the newest of the files [0, n) of a process that has the parts; the last file of a process seldom has them. If
 * several files were given (n_all), a broken one is named and left out.
 */
static int read_newest(struct dp_rss *rss, char *const *paths, const struct dp_query_file *names, size_t n,
                       size_t n_all)
{
    struct dp_query_source source = {.input = {.bytes = {0}}};
    int status = 0;
    bool is_taken = false;
    for (size_t i = 0; i < n && !status && !is_taken; i++) {
        const char *path = names ? names[i].file : paths[i];
        status = dp_query_read_file("rss", path, DP_DECODE_LIMIT, &source);
        bool is_measured = !status && dp_model_merge_number(&source.decode, DP_COMMENT_RSS_TOTAL, -1) >= 0;
        if (is_measured || (!status && n_all == 1)) {
            status = take_profile(rss, path, &source.decode);
            is_taken = !status;
        } else if (!status && i + 1 == n) {
            rss->n_unmeasured++;
        }
        if (status && n_all > 1) {
            dp_query_leave_out(path);
            status = 0;
        }
    }
    dp_query_source_fini(&source);
    return status;
}

int dp_rss_profile_read(struct dp_rss *rss, char **paths, size_t n)
{
    struct dp_query_paths files = {.n = 0};
    struct dp_query_file *names = NULL;
    size_t n_before = dp_query_n_left_out();
    int status = dp_query_paths_add_all(&files, "rss", paths, n);
    if (!status)
        status = dp_query_paths_choose(&files, "rss", NULL, "inuse_space");
    if (!status && !(names = calloc(files.n + 1, sizeof *names))) {
        dp_query_print_error("rss", "out of memory");
        status = DP_EXIT_FAILED;
    }
    size_t n_names = status ? 0 : dp_query_files_sort(files.at, files.n, names);
    rss->shared_bytes = rss->swap_bytes = -1;
    for (size_t i = 0, n_same; i < n_names && !status; i += n_same) {
        n_same = 1;
        while (i + n_same < n_names && dp_query_file_is_same(&names[i], &names[i + n_same]))
            n_same++;
        status = read_newest(rss, NULL, &names[i], n_same, files.n);
    }
    for (size_t i = 0; i < files.n && !status && !n_names; i++)
        status = read_newest(rss, &files.at[i], NULL, 1, files.n);
    if (!status && rss->n_unmeasured)
        dp_query_print_error("rss", "%zu process%s ended before %s resident memory was measured%s", rss->n_unmeasured,
                             rss->n_unmeasured == 1 ? "" : "es", rss->n_unmeasured == 1 ? "its" : "their",
                             rss->is_profiled ? ", and left out" : "");
    if (!status && !rss->is_profiled)
        status = DP_EXIT_FAILED;
    else if (!status)
        dp_query_say_left_out("rss", n_before);
    free(names);
    dp_query_paths_fini(&files);
    return status;
}

/* malloc's memory in use in the file. 0, or DP_EXIT_FAILED after one line. */
static int read_in_use(const char *path, int64_t *in_use)
{
    struct dp_query_source source = {.input = {.bytes = {0}}};
    struct dp_decode_error error;
    int status = dp_query_read_file("rss", path, DP_DECODE_LIMIT, &source);
    int err = status ? 0 : sum_inuse(&source.decode, in_use, &error);
    if (err)
        status = dp_query_refuse("rss", path, err, &error);
    dp_query_source_fini(&source);
    return status;
}

int dp_rss_profile_grow(struct dp_rss *then, const char *path, const char *now)
{
    struct timespec time;
    int64_t before = 0, after = 0;
    int status = path ? read_in_use(path, &before) : 0;
    if (!status)
        status = read_in_use(now, &after);
    if (status)
        return status;
    clock_gettime(CLOCK_REALTIME, &time);
    then->grown_bytes = after - before;
    then->time_ns = time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
    return 0;
}

/* ---- the profile of a process ----------------------------------------------------------------------------------- */

bool dp_rss_process_conf(pid_t pid, struct dp_config *conf)
{
    struct dp_config_error error;
    static const char key[] = "DELTAPROF_CONF=";
    char *word = NULL;
    size_t room = 0;
    bool is_there = false;
    FILE *environment = dp_rss_process_open(pid, "environ");
    dp_config_init(conf);
    while (environment && getdelim(&word, &room, '\0', environment) > 0)
        is_there |= !strncmp(word, key, sizeof key - 1) && !dp_config_parse(conf, word + sizeof key - 1, &error);
    free(word);
    if (environment)
        fclose(environment);
    return is_there;
}

/* A glob for the directory: %p becomes the pid, %e and %h anything. */
static void expand(char *to, size_t room, const char *out, pid_t pid)
{
    size_t n = 0;
    for (const char *p = out; *p && n + 24 < room; p++) {
        if (*p == '%' && p[1] == 'p')
            n += (size_t)snprintf(to + n, room - n, "%d", (int)pid);
        else if (*p == '%' && (p[1] == 'e' || p[1] == 'h'))
            to[n++] = '*';
        else if (*p == '%' && p[1])
            to[n++] = p[1];
        else {
            if (strchr("*?[\\", *p))
                to[n++] = '\\';
            to[n++] = *p;
            continue;
        }
        p++;
    }
    to[n] = '\0';
}

/* When the process began, in seconds; 0: not known. */
static time_t start_of(pid_t pid)
{
    uint64_t ticks = dp_process_began(pid, pid, NULL);
    struct timespec wall, boot;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    return ticks ? wall.tv_sec - boot.tv_sec + (time_t)(ticks / (uint64_t)sysconf(_SC_CLK_TCK)) : 0;
}

/*
 * Whether the profile was written since the process began: another process may have had the pid before. is_measured:
 * and has the resident memory, which those of a peak and of a signal handler have not.
 */
static bool is_of(const char *path, time_t start, bool is_measured)
{
    struct dp_query_source source = {.input = {.bytes = {0}}};
    bool is = !dp_query_read_file("rss", path, DP_DECODE_LIMIT, &source) &&
              (source.decode.time_ns + source.decode.duration_ns) / 1000000000 + 1 >= start &&
              (!is_measured || dp_model_merge_number(&source.decode, DP_COMMENT_RSS_TOTAL, -1) >= 0);
    dp_query_source_fini(&source);
    return is;
}

static int by_newest(const void *a, const void *b)
{
    uint64_t x = ((const struct dp_query_file *)a)->seq, y = ((const struct dp_query_file *)b)->seq;
    return (x < y) - (x > y);
}

/*
 * The newest heap profile of the process that the glob `directory` has, malloc'ed; NULL: none. is_measured: one with
 * the resident memory, if one of the last LOOKED_AT has it.
 */
static char *newest_in(const char *root, const char *directory, pid_t inner, time_t start, bool is_measured)
{
    enum { LOOKED_AT = 8 };
    char pattern[4 * DP_CONFIG_TEXT], *newest = NULL;
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s%s/*.%d.*.%s" DP_PROFILE_SUFFIX, root, directory, (int)inner,
             dp_kind_table[DP_KIND_HEAP].name);
    if (glob(pattern, 0, NULL, &found))
        return NULL;
    struct dp_query_file *names = calloc(found.gl_pathc + 1, sizeof *names);
    size_t n = names ? dp_query_files_sort(found.gl_pathv, found.gl_pathc, names) : 0;
    if (n)
        qsort(names, n, sizeof *names, by_newest);
    for (size_t i = 0; is_measured && i < n && i < LOOKED_AT && !newest; i++)
        if (is_of(names[i].file, start, true))
            newest = strdup(names[i].file);
    if (!newest && n && is_of(names[0].file, start, false))
        newest = strdup(names[0].file);
    free(names);
    globfree(&found);
    return newest;
}

char *dp_rss_profile_find(const struct dp_rss_process *p, const char *path, bool is_measured)
{
    static struct dp_config conf;
    char out[DP_CONFIG_TEXT] = "", directory[2 * DP_CONFIG_TEXT], root[64];
    pid_t inner = dp_process_inner_pid(p->pid);
    time_t start = start_of(p->pid);
    char *found = NULL;
    if (path)
        return newest_in("", path, inner, start, is_measured);
    if (*p->out)
        snprintf(out, sizeof out, "%s", p->out);
    else if (dp_rss_process_conf(p->pid, &conf)) /* some programs, such as redis, write their title over it */
        memcpy(out, conf.out, DP_CONFIG_TEXT);
    expand(directory, sizeof directory, out, inner);
    if (*out)
        found = newest_in("", directory, inner, start, is_measured);
    snprintf(root, sizeof root, "/proc/%d/root", (int)p->pid); /* a process in a container has another root */
    if (!found && *out == '/')
        found = newest_in(root, directory, inner, start, is_measured);
    snprintf(root, sizeof root, "/proc/%d/cwd/", (int)p->pid);
    if (!found && *out && *out != '/')
        found = newest_in(root, directory, inner, start, is_measured);
    const char *const places[] = {root, "."};
    for (size_t i = 0; i < 2 && !found && !*out; i++) {
        found = newest_in(places[i], "", inner, start, is_measured);
        if (!found)
            found = newest_in(places[i], "/*", inner, start, is_measured);
    }
    return found;
}
