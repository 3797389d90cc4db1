/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/view.c - `deltaprof view`: writes many profiles as one HTML page.
 *
 * The page is the one that src/view/ makes, with a pack of all profiles in it: gzipped, in base64. It loads nothing
 * from other machines. Profiles go into the pack by process and time: ordered by the sequence numbers in their names,
 * or, for other names, by the times in the files, which are then read twice.
 */
#include "base/text.h"
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/cli/out.h"
#include "tool/cli/view_leaks.h"
#include "tool/cli/view_summary.h"
#include "tool/query/print.h"
#include "profile/kinds.h"
#include "tool/query/files.h"
#include "tool/pack/pack.h"
#include "tool/query/paths.h"
#include "view/page.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Writes one HTML page that shows the profiles: the sentences of `deltaprof summary`, charts over time, flame "
    "graphs\n"
    "of any range of time, comparison of two ranges, tables and locks. Prints the name of the page. The page needs no\n"
    "network and no server, so it can be kept or sent to somebody. A PATH is a file of any producer, raw or gzipped, "
    "a\n"
    "directory or a glob; - is standard input.\n"
    "\n"
    "  --source        puts the source lines around those of the stacks into the page, from files of this machine;\n"
    "                  without it a page has no source text\n"
    "  --diff          compares two PATHs: the first is A, in blue where it has more; the second is B, in red\n"
    "  -o FILE         where to write the page (default: deltaprof-PROGRAM.html in the current directory); the file\n"
    "                  appears when it is complete\n"
    "  --limit BYTES   the largest size of a profile after decompression (k M G; default 1G)\n";

/* A file that is not named PROGRAM.PID.SEQ.KIND.pb.gz. */
struct loose {
    const char *file;
    const char *side; /* of a comparison, or "" */
    char program[64], kind[32];
    int64_t end_ns;
};

/* Zero: nothing is compared. */
struct sides {
    const char *old, *new;       /* arguments of the command line */
    struct dp_query_paths files; /* of old, sorted */
};

struct view {
    struct dp_query_paths paths;
    size_t limit_bytes;
    const char *out;
    struct dp_query_source source;
    struct dp_pack pack;
    struct dp_query_file *names;
    struct loose *loose;
    size_t n_names, n_loose;
    struct sides sides;
    bool many_directories;
    char program[64]; /* of the first file */
};

static int out_of_memory(void)
{
    dp_query_print_error("view", "out of memory");
    return DP_EXIT_FAILED;
}

/* ---- the two sides of a comparison ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Finds the files of OLD. 0, or an exit status after one line on stderr. */
static int find_sides(struct sides *sides, char **paths, size_t n)
{
    if (n != 2 || !strcmp(paths[0], paths[1])) {
        dp_query_print_error("view", "--diff takes two different paths: deltaprof view --diff OLD NEW");
        return DP_EXIT_USAGE;
    }
    sides->old = paths[0];
    sides->new = paths[1];
    int status = dp_query_paths_add_all(&sides->files, "view", paths, 1);
    if (!status)
        qsort(sides->files.at, sides->files.n, sizeof *sides->files.at, by_name);
    return status;
}

static bool is_old(const struct sides *sides, const char *file)
{
    return sides->old && bsearch(&file, sides->files.at, sides->files.n, sizeof *sides->files.at, by_name);
}

/* The argument that named the file; "": nothing is compared. */
static const char *side_of(const struct sides *sides, const char *file)
{
    return !sides->old ? "" : is_old(sides, file) ? sides->old : sides->new;
}

static int add_decoded(struct view *v, const char *file, const struct dp_pack_source *source)
{
    struct dp_decode_error error = {""};
    int err = !strcmp(source->kind, dp_kind_table[DP_KIND_EVENTS].name)
                  ? dp_pack_add_moments(&v->pack, &v->source.decode, source, &error)
                  : dp_pack_add(&v->pack, &v->source.decode, source, &error);
    if (err == -EBADMSG && v->source.is_quiet)
        return DP_QUERY_BROKEN;
    return err ? dp_query_refuse("view", file, err, &error) : 0;
}

static int add(struct view *v, const char *file, const struct dp_pack_source *source)
{
    int status = dp_query_read_file("view", file, v->limit_bytes, &v->source);
    return status ? status : add_decoded(v, file, source);
}

/* ---- files whose names say what they are ------------------------------------------------------------------------ */

static size_t n_directory(const struct dp_query_file *f)
{
    return f->program > f->file ? (size_t)(f->program - f->file) - 1 : 0;
}

static bool is_same_directory(const struct dp_query_file *x, const struct dp_query_file *y)
{
    return n_directory(x) == n_directory(y) && !memcmp(x->file, y->file, n_directory(x));
}

static int add_named(struct view *v, const struct dp_query_file *f)
{
    char pid[DP_QUERY_PID_BYTES];
    char program[256], kind[32], directory[256] = "";
    snprintf(program, sizeof program, "%.*s", (int)f->n_program, f->program);
    snprintf(kind, sizeof kind, "%.*s", (int)f->n_kind, f->kind);
    if (v->sides.old)
        snprintf(directory, sizeof directory, "%s", side_of(&v->sides, f->file));
    else if (v->many_directories)
        snprintf(directory, sizeof directory, "%.*s", (int)n_directory(f), f->file);
    dp_query_file_print_pid(f, pid);
    return add(v, f->file, &(struct dp_pack_source){.kind = kind, .program = program, .pid = pid, .host = directory});
}

static int add_all_named(struct view *v)
{
    int status = 0;
    for (size_t i = 1; i < v->n_names; i++)
        v->many_directories |= !is_same_directory(&v->names[0], &v->names[i]);
    if (v->n_names)
        snprintf(v->program, sizeof v->program, "%.*s", (int)v->names[0].n_program, v->names[0].program);
    for (size_t i = v->n_names; i-- > 0 && !status;) { /* the newest of a process comes first */
        dp_query_print_progress("view", v->n_names - i, v->n_names + 1);
        status = add_named(v, &v->names[i]);
    }
    dp_query_print_progress("view", 1, 1);
    return status;
}

/* ---- other files ------------------------------------------------------------------------------------------------ */

/* A text of the profile, cut where it is too long. */
static void copy_text(const struct dp_decode *d, uint32_t string, char *to, size_t n_to)
{
    size_t n_bytes;
    const char *text = dp_decode_text(d, string, &n_bytes);
    snprintf(to, n_to, "%.*s", n_bytes < n_to ? (int)n_bytes : (int)n_to - 1, text);
}

static void describe(const struct dp_decode *d, struct loose *loose)
{
    char path[256] = "", type[32] = "";
    if (d->mappings.n)
        copy_text(d, d->mappings.at[0].file, path, sizeof path);
    const char *slash = strrchr(path, '/');
    snprintf(loose->program, sizeof loose->program, "%.63s", slash ? slash + 1 : path);
    strcpy(loose->kind, "other");
    for (size_t i = 0; i < d->types.n; i++) {
        copy_text(d, d->types.at[i].type, type, sizeof type);
        unsigned kind = dp_kind_by_type(type);
        snprintf(loose->kind, sizeof loose->kind, "%s", kind < DP_KINDS ? dp_kind_table[kind].name : type);
        if (kind < DP_KINDS)
            break;
    }
    loose->end_ns = d->time_ns + (d->duration_ns > 0 && d->time_ns < INT64_MAX - d->duration_ns ? d->duration_ns : 0);
}

static int by_process_and_time(const void *a, const void *b)
{
    const struct loose *x = a, *y = b;
    int order = strcmp(x->kind, y->kind);
    if (!order)
        order = strcmp(x->program, y->program);
    if (!order)
        order = strcmp(x->side, y->side);
    return order ? order : (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Standard input can be read only once, so its kind is determined while it is read. */
static int add_all_loose(struct view *v)
{
    int status = 0;
    for (size_t i = 0; i < v->n_loose && !status; i++) {
        struct loose *l = &v->loose[i];
        status = dp_query_read_file("view", l->file, v->limit_bytes, &v->source);
        if (!status)
            describe(&v->source.decode, l);
    }
    bool once = v->n_loose == 1;
    if (!status && !once)
        qsort(v->loose, v->n_loose, sizeof *v->loose, by_process_and_time);
    for (size_t i = 0; i < v->n_loose && !status; i++) {
        const struct loose *l = &v->loose[i];
        struct dp_pack_source source = {.kind = l->kind, .program = l->program, .pid = "", .host = l->side};
        status = once ? add_decoded(v, l->file, &source) : add(v, l->file, &source);
    }
    if (v->n_loose && !*v->program)
        snprintf(v->program, sizeof v->program, "%s", v->loose[0].program);
    return status;
}

static int add_all(struct view *v)
{
    v->names = malloc((v->paths.n + 1) * sizeof *v->names);
    v->loose = malloc((v->paths.n + 1) * sizeof *v->loose);
    if (!v->names || !v->loose)
        return out_of_memory();
    struct dp_query_file name;
    for (size_t i = 0; i < v->paths.n; i++) {
        bool is_input = !strcmp(v->paths.at[i], "-");
        if (is_input && v->paths.n > 1) {
            dp_query_print_error("view", "- cannot be combined with other files");
            return DP_EXIT_USAGE;
        }
        if (!dp_query_file_parse(v->paths.at[i], &name))
            v->loose[v->n_loose++] = (struct loose){.file = v->paths.at[i], .side = side_of(&v->sides, v->paths.at[i])};
    }
    v->n_names = dp_query_files_sort(v->paths.at, v->paths.n, v->names);
    int status = add_all_named(v);
    return status ? status : add_all_loose(v);
}

/* As add_all, but without the files that are broken: all is then read again. */
static int add_readable(struct view *v)
{
    v->source.is_quiet = dp_query_may_sift(&v->paths);
    int status = add_all(v);
    while (status == DP_QUERY_BROKEN) {
        size_t n_before = v->paths.n;
        dp_pack_fini(&v->pack);
        v->pack = (struct dp_pack){.sides = {v->sides.old, v->sides.new}};
        free(v->names);
        free(v->loose);
        v->names = NULL, v->loose = NULL;
        v->n_names = v->n_loose = 0;
        v->many_directories = false;
        *v->program = '\0';
        status = dp_query_skip_broken(&v->paths, "view", v->limit_bytes);
        v->source.is_quiet = v->paths.n < n_before && dp_query_may_sift(&v->paths);
        if (!status)
            status = add_all(v);
    }
    v->source.is_quiet = false;
    return status;
}

/* Heap profiles of names that tell no order are not judged, nor those that others are compared with. */
static int judge_leaks(struct view *v)
{
    char **heap = malloc((v->n_names + 1) * sizeof *heap);
    size_t n = 0;
    if (!heap)
        return out_of_memory();
    for (size_t i = 0; i < v->n_names; i++)
        if (!strncmp(v->names[i].kind, "heap.", 5) && !is_old(&v->sides, v->names[i].file))
            heap[n++] = v->paths.at[v->names[i].position];
    int status = n ? dp_cli_view_leaks(&v->pack, heap, n, v->limit_bytes) : 0;
    free(heap);
    return status;
}

/* Files of other names have no order in time, and those of other kinds no sentences. */
static int summarise(struct view *v)
{
    char **files = malloc((v->n_names + 1) * sizeof *files);
    size_t n = 0;
    if (!files)
        return out_of_memory();
    for (size_t i = 0; i < v->n_names; i++)
        if (!is_old(&v->sides, v->names[i].file) && v->names[i].kind_id < DP_KIND_DELTAS)
            files[n++] = v->paths.at[v->names[i].position];
    int status = n ? dp_cli_view_summary(&v->pack, files, n, v->limit_bytes) : 0;
    free(files);
    return status;
}

/* ---- the page --------------------------------------------------------------------------------------------------- */

/* Makes base64 of a stream of bytes: what is left of three bytes waits for the next. */
struct base64 {
    struct dp_cli_out *out;
    uint8_t left[3];
    size_t n_left;
};

static int put_base64(void *ctx, const void *bytes, size_t n_bytes)
{
    struct base64 *b = ctx;
    const uint8_t *at = bytes;
    char text[4096];
    size_t n_text = 0;
    int err = 0;
    while (n_bytes && !err) {
        b->left[b->n_left++] = *at++;
        n_bytes--;
        if (b->n_left < 3)
            continue;
        n_text += dp_text_base64(text + n_text, b->left, sizeof b->left);
        b->n_left = 0;
        if (n_text == sizeof text) {
            err = dp_cli_out_write(b->out, text, n_text);
            n_text = 0;
        }
    }
    return err || !n_text ? err : dp_cli_out_write(b->out, text, n_text);
}

static int finish_base64(struct base64 *b)
{
    char text[4];
    size_t n_text = dp_text_base64(text, b->left, b->n_left);
    return n_text ? dp_cli_out_write(b->out, text, n_text) : 0;
}

static int write_page(struct dp_pack *pack, struct dp_cli_out *out)
{
    static const char begin[] = "<script type=\"application/octet-stream\">", end[] = "</script>\n";
    struct base64 base64 = {.out = out};
    int err = dp_cli_out_write(out, dp_view_page_before, dp_view_page_before_bytes);
    struct dp_gzip *gzip = err ? NULL : dp_gzip_new(put_base64, &base64);
    if (!err && !gzip)
        err = -ENOMEM;
    if (err || (err = dp_cli_out_write(out, begin, sizeof begin - 1)) ||
        (err = dp_pack_write(pack, dp_gzip_write, gzip)) || (err = dp_gzip_finish(gzip)) ||
        (err = finish_base64(&base64)) || (err = dp_cli_out_write(out, end, sizeof end - 1)))
        goto out;
    err = dp_cli_out_write(out, dp_view_page_after, dp_view_page_after_bytes);
out:
    dp_gzip_free(gzip);
    return err;
}

static int write_file(struct view *v)
{
    char name[128];
    struct dp_cli_out out;
    snprintf(name, sizeof name, *v->program ? "deltaprof-%s.html" : "deltaprof%s.html", v->program);
    const char *path = v->out ? v->out : name;
    int status = dp_cli_out_open_plain(&out, "view", path);
    if (status)
        return status;
    bool is_file = out.path;
    status = dp_cli_out_close(&out, write_page(&v->pack, &out));
    if (!status && is_file) {
        puts(path);
        status = dp_query_print_flush("view");
    }
    return status;
}

int dp_cli_view(int argc, char **argv)
{
    static const struct option options[] = {{"limit", required_argument, NULL, 'l'},
                                            {"diff", no_argument, NULL, 'd'},
                                            {"source", no_argument, NULL, 's'},
                                            {0}};
    bool is_diff = false, has_source = false;
    struct view v = {.limit_bytes = DP_DECODE_LIMIT};
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = 0;
    for (int option; !status && (option = getopt_long(argc, argv, ":o:", options, NULL)) != -1;) {
        if (option == 'o')
            v.out = optarg;
        else if (option == 's')
            has_source = true;
        else if (option == 'd')
            is_diff = true;
        else if (option == 'l')
            status = dp_query_limit("view", optarg, &v.limit_bytes);
        else
            status = dp_query_bad_option(argv, option);
    }
    if (!status && optind == argc) {
        dp_query_print_error("view", "no file given: deltaprof view PATH... [-o FILE.html]");
        status = DP_EXIT_USAGE;
    }
    if (!status)
        status = dp_cli_live_begin("view", argv + optind, argc - optind);
    if (!status && is_diff)
        status = find_sides(&v.sides, argv + optind, (size_t)(argc - optind));
    v.pack.sides[0] = v.sides.old, v.pack.sides[1] = v.sides.new;
    if (!status)
        status = dp_query_paths_add_all(&v.paths, "view", argv + optind, (size_t)(argc - optind));
    if (!status)
        status = add_readable(&v);
    if (!status && has_source && dp_pack_add_sources(&v.pack))
        status = out_of_memory();
    if (!status)
        status = judge_leaks(&v);
    if (!status)
        status = summarise(&v);
    if (!status)
        status = write_file(&v);
    dp_query_source_fini(&v.source);
    dp_pack_fini(&v.pack);
    dp_query_paths_fini(&v.paths);
    dp_query_paths_fini(&v.sides.files);
    free(v.names);
    free(v.loose);
    return status;
}
