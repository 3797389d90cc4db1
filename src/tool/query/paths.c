/* SPDX-License-Identifier: MIT */
/*
 * tool/query/paths.c - expands directories and globs, and keeps one kind of profile.
 *
 * A profile directory holds heap, block and mutex profiles side by side, which have nothing to be summed. Names say of
 * which kind they are, or, for names of another form, the sample types inside. Files are
 * sorted by name, so that output does not depend on the file system's order. Links are not followed: a directory that
 * holds itself ends.
 */
#include "tool/query/paths.h"

#include "tool/query/print.h"
#include "tool/query/units.h"
#include "profile/file_name.h"
#include "profile/kinds.h"
#include "tool/query/files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int out_of_memory(const char *verb)
{
    dp_query_print_error(verb, "out of memory");
    return DP_EXIT_FAILED;
}

static int push(struct dp_query_paths *p, const char *path)
{
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        char **at = realloc(p->at, cap * sizeof *at);
        if (!at)
            return -ENOMEM;
        p->at = at;
        p->cap = cap;
    }
    p->at[p->n] = strdup(path);
    return p->at[p->n] ? (p->n++, 0) : -ENOMEM;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_profile(const char *file, bool ours)
{
    struct dp_query_file name;
    size_t n = strlen(file), n_suffix = strlen(DP_PROFILE_SUFFIX);
    if (file[0] == '.')
        return false;
    return ours ? dp_query_file_parse(file, &name) : n > n_suffix && !strcmp(file + n - n_suffix, DP_PROFILE_SUFFIX);
}

static int walk(struct dp_query_paths *p, const char *path, bool ours);

/* A file or directory in a directory. Directories that cannot be read are left out. */
static int visit(struct dp_query_paths *p, const char *dir, const char *name, bool ours)
{
    struct stat st;
    char path[PATH_MAX];
    if (!strcmp(name, ".") || !strcmp(name, "..") ||
        snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path || lstat(path, &st))
        return 0;
    if (S_ISDIR(st.st_mode)) {
        int err = walk(p, path, ours);
        return err == -ENOMEM ? err : 0;
    }
    return S_ISREG(st.st_mode) && is_profile(name, ours) ? push(p, path) : 0;
}

/* Files in a directory and below. Returns 0 or -errno. */
static int walk(struct dp_query_paths *p, const char *path, bool ours)
{
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, by_name), err = 0;
    if (n < 0)
        return -errno;
    for (int i = 0; i < n; i++) {
        if (!err)
            err = visit(p, path, entries[i]->d_name, ours);
        free(entries[i]);
    }
    free(entries);
    return err;
}

/* Reads what the last program without a sample left in the directory. False: nothing. */
static bool read_no_sample(const char *path, char *text, size_t room)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/" DP_PROFILE_NO_SAMPLE, path);
    FILE *note = fopen(name, "re");
    bool is_there = note && fgets(text, (int)room, note);
    if (note)
        fclose(note);
    if (is_there)
        text[strcspn(text, "\n")] = '\0';
    return is_there;
}

/* Workers of servers that start as root run as another user, and cannot write in a directory of root's. */
static const char *says_whose(const char *path)
{
    struct stat st;
    bool is_of_root = !stat(path, &st) && st.st_uid == 0 && !(st.st_mode & S_IWOTH);
    return is_of_root ? "; workers that run as another user than root cannot write here (chmod 1777)" : "";
}

static int refuse_directory(const char *verb, const char *path)
{
    char why[512];
    if (read_no_sample(path, why, sizeof why))
        dp_query_print_error(verb, "%s: no profile in this directory: %s%s", dp_query_print_word_of(path), why,
                             says_whose(path));
    else
        dp_query_print_error(
            verb,
            "%s: no profile in this directory: deltaprof run -o out=%s -- COMMAND writes some, after interval= "
            "or at the end of COMMAND; none if COMMAND is killed before, or exe= leaves it out%s",
            path, path, says_whose(path));
    return DP_EXIT_FAILED;
}

static int add_directory(struct dp_query_paths *p, const char *verb, const char *path)
{
    size_t n_before = p->n, n_path = strlen(path);
    char *trimmed = strdup(path);
    if (!trimmed)
        return out_of_memory(verb);
    while (n_path > 1 && trimmed[n_path - 1] == '/')
        trimmed[--n_path] = '\0';
    int err = walk(p, trimmed, true);
    if (!err && p->n == n_before)
        err = walk(p, trimmed, false);
    free(trimmed);
    if (err) {
        dp_query_print_error(verb, "%s: %s", path, strerror(-err));
        return DP_EXIT_FAILED;
    }
    return p->n > n_before ? 0 : refuse_directory(verb, path);
}

static int add_glob(struct dp_query_paths *p, const char *verb, const char *path)
{
    glob_t found;
    int status = 0;
    if (glob(path, 0, NULL, &found)) {
        dp_query_print_error(verb, "%s: no such file", path);
        return DP_EXIT_FAILED;
    }
    for (size_t i = 0; i < found.gl_pathc && !status; i++) {
        struct stat st;
        bool is_directory = !stat(found.gl_pathv[i], &st) && S_ISDIR(st.st_mode);
        if (is_directory)
            status = add_directory(p, verb, found.gl_pathv[i]);
        else if (push(p, found.gl_pathv[i]))
            status = out_of_memory(verb);
    }
    globfree(&found);
    return status;
}

static int add_path(struct dp_query_paths *p, const char *verb, const char *path)
{
    struct stat st;
    int missing = strcmp(path, "-") && stat(path, &st);
    if (missing && strpbrk(path, "*?["))
        return add_glob(p, verb, path);
    if (!missing && strcmp(path, "-") && S_ISDIR(st.st_mode))
        return add_directory(p, verb, path);
    return push(p, path) ? out_of_memory(verb) : 0;
}

struct identity {
    dev_t device;
    ino_t inode;
    size_t at;
};

static int by_identity(const void *a, const void *b)
{
    const struct identity *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->inode != y->inode)
        return x->inode < y->inode ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Leaves out files that stand there already, perhaps by another path: else they were counted twice. 0 or -errno. */
static int skip_repeated(struct dp_query_paths *p)
{
    struct stat st;
    size_t n = 0, n_left = 0;
    struct identity *files = calloc(p->n ? p->n : 1, sizeof *files);
    if (!files)
        return -ENOMEM;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->at[i], "-") && !stat(p->at[i], &st) && S_ISREG(st.st_mode))
            files[n++] = (struct identity){st.st_dev, st.st_ino, i};
    qsort(files, n, sizeof *files, by_identity);
    for (size_t i = 1; i < n; i++)
        if (files[i].device == files[i - 1].device && files[i].inode == files[i - 1].inode) {
            free(p->at[files[i].at]);
            p->at[files[i].at] = NULL;
        }
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i])
            p->at[n_left++] = p->at[i];
    p->n = n_left;
    free(files);
    return 0;
}

int dp_query_paths_add_all(struct dp_query_paths *p, const char *verb, char **paths, size_t n)
{
    int status = 0;
    p->given = paths;
    p->n_given = n;
    for (size_t i = 0; i < n && !status; i++)
        status = add_path(p, verb, paths[i]);
    return !status && n > 1 && skip_repeated(p) ? out_of_memory(verb) : status;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------ */

enum { MAX_KINDS = 8, KIND_BYTES = 24 };

struct kinds {
    char names[MAX_KINDS][KIND_BYTES];
    size_t n;
};

/* Whether the profile has a kind's title among its comments. */
static bool has_title(const struct dp_decode *d, const char *title)
{
    for (size_t i = 0; i < d->comments.n && title; i++) {
        size_t n;
        const char *text = dp_decode_text(d, d->comments.at[i], &n);
        if (n >= strlen(title) && !memcmp(text, title, strlen(title)))
            return true;
    }
    return false;
}

static bool has_frame(const struct dp_decode *d, const char *name)
{
    for (size_t i = 0; i < d->functions.n && name; i++)
        if (dp_decode_is_text(d, d->functions.at[i].name, name))
            return true;
    return false;
}

/* The number of sample types of the kind, other than counts, that the profile has. */
static unsigned count_types(const struct dp_decode *d, const struct dp_kind *kind)
{
    unsigned n = 0;
    for (size_t i = 0; i < d->types.n; i++)
        for (size_t k = 0; k < kind->n_types; k++)
            n += strcmp(kind->types[k].unit, "count") != 0 &&
                 dp_decode_is_text(d, d->types.at[i].type, kind->types[k].name);
    return n;
}

/*
 * The kind of a profile by its content: by its title, or a frame that only one kind has. Else it is the kind of which
 * it has the most sample types; of several such kinds, the first by rank.
 */
static const char *kind_of_content(const struct dp_decode *d)
{
    const struct dp_kind *found = NULL;
    unsigned most = 0;
    for (const struct dp_kind *kind = dp_kind_table; kind < dp_kind_table + DP_KINDS; kind++) {
        unsigned n = count_types(d, kind);
        if (has_title(d, kind->title) || (n && has_frame(d, kind->frame)))
            return kind->name;
        if (n > most || (n && n == most && kind->rank < found->rank)) {
            found = kind;
            most = n;
        }
    }
    return !found ? "" : found->untitled ? found->untitled : found->name;
}

/* The kind that the name says; of another form of name, the kind of the content. "": not known. */
static void kind_of(const char *file, char kind[KIND_BYTES])
{
    struct dp_query_file name;
    struct dp_query_source source = {.is_quiet = true};
    kind[0] = '\0';
    if (dp_query_file_parse(file, &name) && name.n_kind < KIND_BYTES)
        snprintf(kind, KIND_BYTES, "%.*s", (int)name.n_kind, name.kind);
    else if (strcmp(file, "-") && !dp_query_read_file("", file, DP_DECODE_LIMIT, &source))
        snprintf(kind, KIND_BYTES, "%s", kind_of_content(&source.decode));
    dp_query_source_fini(&source);
}

static bool has_kind(const struct kinds *kinds, const char *kind)
{
    for (size_t i = 0; i < kinds->n; i++)
        if (!strcmp(kinds->names[i], kind))
            return true;
    return false;
}

/* Whether a profile of this kind may be one of the wanted kind. */
static bool is_kind(const char *kind, const char *wanted)
{
    unsigned id = dp_kind_named(wanted, strlen(wanted));
    const char *untitled = id < DP_KINDS ? dp_kind_table[id].untitled : NULL;
    return !strcmp(kind, wanted) || (untitled && !strcmp(kind, untitled));
}

static void find_kinds(char (*of_path)[KIND_BYTES], size_t n, struct kinds *kinds)
{
    for (size_t i = 0; i < n && kinds->n < MAX_KINDS; i++)
        if (*of_path[i] && !has_kind(kinds, of_path[i]))
            strcpy(kinds->names[kinds->n++], of_path[i]);
}

/* The name under which there are profiles of the kind; NULL: there are none. */
static const char *name_of(const struct kinds *kinds, const struct dp_kind *kind)
{
    return has_kind(kinds, kind->name)                         ? kind->name
           : kind->untitled && has_kind(kinds, kind->untitled) ? kind->untitled
                                                               : NULL;
}

/* The one to show if the user names none: the first by rank, of those with the sample type if there are any. */
static const char *best_kind(const struct kinds *kinds, const char *type)
{
    const char *best = NULL;
    for (int pass = 0; pass < 2 && !best; pass++) {
        unsigned rank = DP_KINDS;
        for (unsigned kind = 0; kind < DP_KIND_DELTAS; kind++) {
            const char *name = name_of(kinds, &dp_kind_table[kind]);
            if (name && dp_kind_table[kind].rank < rank && (pass || !type || dp_kind_has_type(kind, type))) {
                best = name;
                rank = dp_kind_table[kind].rank;
            }
        }
    }
    return best ? best : kinds->names[0];
}

/* Writes why there may be no profile of a kind; "": not known. */
static void write_absence(const char *name, const struct kinds *kinds, char *text, size_t n_bytes)
{
    unsigned id = dp_kind_named(name, strlen(name));
    const struct dp_kind *kind = id < DP_KINDS ? &dp_kind_table[id] : NULL;
    *text = '\0';
    if (kind && kind->absence.words)
        snprintf(text, n_bytes, " (%s)",
                 has_kind(kinds, dp_kind_table[kind->absence.beside].name) ? kind->absence.beside_words
                                                                           : kind->absence.words);
}

static int refuse_kind(const struct dp_query_paths *p, const char *verb, const char *kind, const struct kinds *kinds)
{
    char there[MAX_KINDS * KIND_BYTES] = "", why[160];
    struct dp_query_source source = {0};
    for (size_t i = 0; i < kinds->n; i++)
        snprintf(there + strlen(there), sizeof there - strlen(there), "%s%s", i ? ", " : "", kinds->names[i]);
    bool can_read = p->n != 1 || !strcmp(p->at[0], "-") ||
                    !dp_query_read_file(verb, p->at[0], DP_DECODE_LIMIT, &source); /* else it has said why */
    dp_query_source_fini(&source);
    write_absence(kind, kinds, why, sizeof why);
    if (can_read)
        dp_query_print_error(verb, "%s: no %s profile; there are: %s%s",
                             dp_query_print_word_of(p->n_given ? p->given[0] : p->at[0]), kind,
                             *there ? there : "none of a known kind", why);
    return DP_EXIT_FAILED;
}

int dp_query_paths_choose(struct dp_query_paths *p, const char *verb, const char *kind, const char *type)
{
    struct kinds kinds = {.n = 0};
    bool is_there = false;
    size_t n = 0;
    if (p->n < 2 && !kind)
        return 0;
    char(*of_path)[KIND_BYTES] = calloc(p->n + 1, sizeof *of_path);
    if (!of_path)
        return out_of_memory(verb);
    for (size_t i = 0; i < p->n; i++)
        kind_of(p->at[i], of_path[i]);
    find_kinds(of_path, p->n, &kinds);
    for (size_t i = 0; i < kinds.n && kind; i++)
        is_there |= is_kind(kinds.names[i], kind);
    if (kind && !is_there) {
        free(of_path);
        return refuse_kind(p, verb, kind, &kinds);
    }
    if (!kind && kinds.n > 1)
        kind = best_kind(&kinds, type);
    for (size_t i = 0; i < p->n && kind; i++) {
        if (!*of_path[i] || is_kind(of_path[i], kind))
            p->at[n++] = p->at[i];
        else
            free(p->at[i]);
    }
    p->n = kind ? n : p->n;
    for (size_t i = 0, used = 0; i < kinds.n && kind && used < sizeof p->others; i++)
        if (!is_kind(kinds.names[i], kind))
            used +=
                (size_t)snprintf(p->others + used, sizeof p->others - used, "%s%s", used ? ", " : "", kinds.names[i]);
    free(of_path);
    return 0;
}

void dp_query_paths_fini(struct dp_query_paths *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->at[i]);
    free(p->at);
    *p = (struct dp_query_paths){.at = NULL};
}
