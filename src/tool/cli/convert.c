/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/convert.c - `deltaprof convert`: a profile in another format.
 *
 * Folded stacks become a pprof message first, which the decoder checks; any output is written from the model that is
 * made of it.
 */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/cli/options.h"
#include "tool/cli/out.h"
#include "tool/formats/formats.h"
#include "tool/model/merge.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/query/query.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char about[] =
    "Writes the profile IN in another format. IN is pprof or folded stacks; deltaprof recognizes the format by the\n"
    "content. - is standard input or standard output. The profiles of a directory, or of a living process by its\n"
    "PID, are merged first, as merge does.\n"
    "\n"
    "  -o OUT        where to write it; the ending tells the format: .pb.gz and .pprof are pprof, .otlp and\n"
    "                .otlp.gz are OTLP profiles, .folded and .txt are folded stacks, .json is speedscope\n"
    "  --to FORMAT   pprof, otlp, folded or speedscope, for any other name of OUT\n"
    "  --type TYPE   for folded stacks: the sample type, such as alloc_space (default: the profile's own default,\n"
    "                else its last)\n"
    "  --limit BYTES the largest size of IN after decompression (k M G; default 1G)\n"
    "\n"
    "Folded stacks and speedscope have no labels and addresses, so these are lost. OTLP keeps everything. In\n"
    "speedscope, negative values are left out, and units are those of time and bytes.\n";

enum format { PPROF, OTLP, FOLDED, SPEEDSCOPE, N_FORMATS };
static const char *const formats[N_FORMATS] = {"pprof", "otlp", "folded", "speedscope"};

static const struct {
    const char *end;
    enum format format;
} suffixes[] = {{".pb.gz", PPROF},   {".pprof", PPROF},      {".pb", PPROF},   {".otlp", OTLP},      {".otlp.gz", OTLP},
                {".folded", FOLDED}, {".collapsed", FOLDED}, {".txt", FOLDED}, {".json", SPEEDSCOPE}};

struct bytes {
    uint8_t *at;
    size_t n, cap;
};

static int append(void *bytes, const void *more, size_t n_more)
{
    struct bytes *to = bytes;
    if (!dp_vec_room(to, n_more + 1))
        return -ENOMEM;
    memcpy(to->at + to->n, more, n_more);
    to->n += n_more;
    return 0;
}

static bool ends_so(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && !strcmp(text + n - n_end, end);
}

/* N_FORMATS: not known. */
static enum format format_of(const char *path, const char *name)
{
    for (int i = 0; name && i < N_FORMATS; i++)
        if (!strcmp(name, formats[i]))
            return (enum format)i;
    for (size_t i = 0; !name && path && i < sizeof suffixes / sizeof *suffixes; i++)
        if (ends_so(path, suffixes[i].end))
            return suffixes[i].format;
    return N_FORMATS;
}

/* Reads a file whole, and inflates it. */
static int read_bytes(int fd, size_t limit_bytes, struct bytes *to, struct dp_decode_error *error)
{
    char buffer[65536];
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
        if (to->n + (size_t)n > limit_bytes)
            return dp_decode_fail(error, "more than %zu bytes; a higher --limit allows more", limit_bytes);
        if (append(to, buffer, (size_t)n))
            return -ENOMEM;
    }
    if (n < 0)
        return dp_decode_fail(error, "%s", strerror(errno));
    if (!to->n)
        return dp_decode_fail(error, "empty");
    if (to->n < 2 || to->at[0] != 0x1f || to->at[1] != 0x8b)
        return 0;
    struct dp_decode_input input = {{0}};
    int err = dp_decode_input_inflate(&input, to->at, to->n, limit_bytes, error);
    dp_vec_clear(to);
    err = err ? err : append(to, input.bytes.at, input.bytes.n);
    dp_decode_input_fini(&input);
    return err;
}

static bool is_text(const struct bytes *b)
{
    for (size_t i = 0; i < b->n && i < 4096; i++)
        if (b->at[i] < ' ' && b->at[i] != '\n' && b->at[i] != '\r' && b->at[i] != '\t')
            return false;
    return true;
}

/* An object, or a list of objects, which no folded stack begins with. Some programs write a byte order mark first. */
static bool is_json(const struct bytes *b)
{
    size_t i = b->n > 3 && !memcmp(b->at, "\xef\xbb\xbf", 3) ? 3 : 0;
    while (i < b->n && strchr(" \t\r\n", b->at[i]))
        i++;
    uint8_t first = i < b->n ? b->at[i] : 0;
    for (i++; first && i < b->n && strchr(" \t\r\n", b->at[i]);)
        i++;
    return i < b->n && ((first == '{' && b->at[i] == '"') || (first == '[' && b->at[i] == '{'));
}

/* Makes folded stacks a pprof message. */
static int to_pprof(struct bytes *b, struct dp_decode_error *error)
{
    if (!is_text(b))
        return dp_decode_input_refuse_others(b->at, b->n, error);
    if (is_json(b))
        return dp_decode_fail(error, "JSON; only pprof and folded stacks can be read");
    struct bytes pprof = {0};
    int err = dp_formats_read_folded(b->at, b->n, append, &pprof, error);
    dp_vec_fini(b);
    *b = pprof;
    return err;
}

static int read_profile(const char *file, size_t limit_bytes, struct bytes *b, struct dp_model_merge *merged)
{
    struct dp_decode_error error = {"out of memory"};
    struct dp_decode decode = {0};
    int fd = strcmp(file, "-") ? open(file, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0) {
        dp_query_print_error("convert", "%s: %s", file, strerror(errno));
        return DP_EXIT_FAILED;
    }
    int err = read_bytes(fd, limit_bytes, b, &error);
    if (fd != STDIN_FILENO)
        close(fd);
    err = err ? err : to_pprof(b, &error);
    err = err ? err : dp_decode_scan(&decode, b->at, b->n, &error);
    err = err ? err : dp_model_merge_add_whole(merged, &decode, &error);
    err = err ? err : dp_model_merge_choose(merged);
    dp_decode_fini(&decode);
    return err ? dp_query_refuse("convert", file, err, &error) : 0;
}

/* Merges the profiles of a directory, as `merge` does. */
static int read_directory(const char *path, size_t limit_bytes, struct dp_model_merge *merged)
{
    struct dp_query v;
    int status = dp_query_init(&v, "convert", 1);
    v.limit_bytes = limit_bytes;
    v.merge.keeps_moments = true;
    if (!status)
        status = dp_query_read(&v, (char *[]){(char *)path}, 1);
    if (!status) {
        dp_query_print_error("convert", "%s: its %zu profile%s merged%s%s", dp_query_print_word_of(path), v.paths.n,
                             v.paths.n == 1 ? " is" : "s are",
                             *v.paths.others ? "; only one kind of them, there are also: " : "", v.paths.others);
        *merged = v.merge;
        v.merge = (struct dp_model_merge){.n_profiles = 0};
    }
    dp_query_fini(&v);
    return status;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return strcmp(path, "-") && !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* The type that folded stacks are of; DP_EXIT_USAGE below 0. */
static int type_of(const struct dp_model_merge *merged, const char *name)
{
    const struct dp_model *m = &merged->model;
    if (!name && merged->header.default_type)
        name = dp_model_text(m, merged->header.default_type);
    if (!name)
        return (int)m->types.n - 1;
    size_t type = dp_model_type_named(m, name);
    if (type < m->types.n)
        return (int)type;
    char names[256];
    dp_model_type_names(m, names, sizeof names);
    dp_query_print_error("convert", "no sample type %s; there are %s", name, names);
    return -DP_EXIT_USAGE;
}

static int write_profile(struct dp_model_merge *merged, enum format format, int type, const char *in,
                         struct dp_cli_out *out)
{
    const struct dp_model *m = &merged->model;
    DP_VEC(uint32_t) rows = {0};
    if (!dp_vec_room(&rows, m->rows.n + 1))
        return -ENOMEM;
    for (uint32_t row = 0; row < m->rows.n; row++)
        if (!dp_encode_is_zero(&merged->values.at[row * m->types.n], m->types.n))
            rows.at[rows.n++] = row;
    struct dp_formats_profile p = {.model = m,
                                   .header = &merged->header,
                                   .values = merged->values.at,
                                   .rows = rows.at,
                                   .n_rows = rows.n,
                                   .n_types = (uint32_t)m->types.n};
    struct dp_formats_origin origin = {0};
    int err = format == PPROF    ? dp_model_merge_write(merged, dp_cli_out_write, out)
              : format == OTLP   ? dp_formats_write_otlp(&p, &origin, dp_cli_out_write, out)
              : format == FOLDED ? dp_formats_write_folded(&p, (uint32_t)type, dp_cli_out_write, out)
                                 : dp_formats_write_speedscope(&p, in, dp_cli_out_write, out);
    dp_vec_fini(&rows);
    return err;
}

static int convert(const char *in, const char *path, enum format format, const char *type_name, size_t limit_bytes)
{
    struct dp_model_merge merged = {.with_inherited = true};
    struct bytes bytes = {0};
    struct dp_cli_out out;
    int type = 0, status = is_directory(in) ? read_directory(in, limit_bytes, &merged)
                                            : read_profile(in, limit_bytes, &bytes, &merged);
    if (!status && format == FOLDED && (type = type_of(&merged, type_name)) < 0)
        status = -type;
    bool is_gzipped = format == PPROF || (path && ends_so(path, ".gz"));
    if (!status)
        status = is_gzipped ? dp_cli_out_open(&out, "convert", path) : dp_cli_out_open_plain(&out, "convert", path);
    if (!status)
        status = dp_cli_out_close(&out, write_profile(&merged, format, type, dp_query_file_name(in), &out));
    dp_model_merge_fini(&merged);
    dp_vec_fini(&bytes);
    return status;
}

int dp_cli_convert(int argc, char **argv)
{
    const char *to = NULL, *type = NULL;
    const struct dp_cli_option own[] = {{"to", &to, NULL}, {"type", &type, NULL}, {0}};
    struct dp_cli_output output;
    if (dp_cli_help(argc, argv, about))
        return 0;
    if (dp_cli_options_read(argc, argv, own, &output))
        return DP_EXIT_USAGE;
    enum format format = format_of(output.path, to);
    if (optind + 1 != argc)
        dp_query_print_error("convert",
                             "one file at a time: deltaprof convert IN -o OUT; deltaprof merge makes one of several");
    else if (format == N_FORMATS)
        dp_query_print_error(
            "convert",
            "which format? -o OUT.pb.gz, .otlp, .folded or .json, or --to pprof, otlp, folded or speedscope");
    else if (type && format != FOLDED)
        dp_query_print_error("convert", "--type %s: only folded stacks are of one type; %s has all types", type,
                             formats[format]);
    else
        return dp_cli_live_begin("convert", argv + optind, 1)
                   ?: convert(argv[optind], output.path, format, type, output.limit_bytes);
    return DP_EXIT_USAGE;
}
