/* SPDX-License-Identifier: MIT */
/* tool/query/files.c - reads profiles, and groups them by process, by their names. */
#include "tool/query/files.h"

#include "pprof/stamp.h"
#include "tool/query/print.h"
#include "profile/file_name.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t memory_bytes; /* cap of memory */
static bool memory_is_all;  /* as much as the machine has for a program */

static mode_t modes = 0777; /* permissions that all files read so far have */

/* Reads a file with one number; SIZE_MAX: no number, or "max". */
static size_t read_number(const char *path)
{
    unsigned long long value;
    FILE *file = fopen(path, "re");
    size_t number = file && fscanf(file, "%llu", &value) == 1 ? value : SIZE_MAX;
    if (file)
        fclose(file);
    return number;
}

/* The smallest limit of the control groups of this process, up to the root; SIZE_MAX: no limit. */
static size_t group_bytes(const char *root, const char *file, char *group)
{
    size_t least = SIZE_MAX;
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        char path[PATH_MAX + 64];
        *end = '\0';
        snprintf(path, sizeof path, "%s%s/%s", root, group, file);
        size_t bytes = read_number(path);
        least = bytes < least ? bytes : least;
    }
    return least;
}

/* The machine's memory, or the limit of control groups if that is smaller. */
static size_t machine_bytes(void)
{
    size_t least = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    char line[PATH_MAX];
    FILE *groups = fopen("/proc/self/cgroup", "re");
    while (groups && fgets(line, sizeof line, groups)) { /* number:controllers:path; version 2: 0::path */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        size_t bytes = SIZE_MAX;
        if (group && group == controllers + 1)
            bytes = group_bytes("/sys/fs/cgroup", "memory.max", group + 1);
        else if (group && !strncmp(controllers, ":memory:", 8))
            bytes = group_bytes("/sys/fs/cgroup/memory", "memory.limit_in_bytes", group + 1);
        least = bytes < least ? bytes : least;
    }
    if (groups)
        fclose(groups);
    return least;
}

static void set_memory(size_t limit_bytes)
{
    size_t most = machine_bytes() / 4 * 3;
    memory_bytes = 4 * limit_bytes + ((size_t)256 << 20);
    memory_is_all = memory_bytes > most;
    if (memory_is_all)
        memory_bytes = most;
    dp_mem_cap(memory_bytes);
}

void dp_query_files_init(void)
{
    set_memory(DP_DECODE_LIMIT);
    opterr = 0;
    signal(SIGXFSZ, SIG_IGN); /* exceeding a file size limit is then an ordinary error */
}

int dp_query_bad_option(char **argv, int option)
{
    const char *what = option == ':' ? "needs a value" : "is no option";
    if (optopt)
        dp_query_print_error(argv[0], "-%c %s; deltaprof %s --help names them", optopt, what, argv[0]);
    else
        dp_query_print_error(argv[0], "%s %s; deltaprof %s --help names them", argv[optind - 1], what, argv[0]);
    return DP_EXIT_USAGE;
}

int dp_query_limit(const char *verb, const char *text, size_t *limit_bytes)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    int shift = *end == 'k' || *end == 'K' ? 10 : *end == 'm' || *end == 'M' ? 20 : *end == 'g' || *end == 'G' ? 30 : 0;
    end += shift != 0;
    if (errno || end == text || *end || *text == '-' || n == 0 || (n << shift) >> shift != n ||
        (n << shift) - 1 > DP_DECODE_LIMIT_MAX) {
        dp_query_print_error(verb, "--limit %s is no size from 1 to 4G (k M G)", text);
        return DP_EXIT_USAGE;
    }
    *limit_bytes =
        n << shift > DP_DECODE_LIMIT_MAX ? DP_DECODE_LIMIT_MAX : (size_t)n << shift; /* 4G is one byte more */
    set_memory(*limit_bytes);
    return 0;
}

mode_t dp_query_read_modes(void)
{
    return modes & 0666;
}

const char *dp_query_file_name(const char *file)
{
    return strcmp(file, "-") ? file : "standard input";
}

int dp_query_read_file(const char *verb, const char *file, size_t limit_bytes, struct dp_query_source *source)
{
    struct dp_decode_error error = {""};
    int fd = strcmp(file, "-") ? open(file, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0 && source->is_quiet)
        return DP_QUERY_BROKEN;
    if (fd < 0) {
        dp_query_print_error(verb, "%s: %s", file, strerror(errno));
        return DP_EXIT_FAILED;
    }
    struct stat st;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode))
        modes &= st.st_mode;
    int result = dp_decode_input_read(&source->input, fd, limit_bytes, &error);
    if (fd != STDIN_FILENO)
        close(fd);
    if (!result)
        result = dp_decode_scan(&source->decode, source->input.bytes.at, source->input.bytes.n, &error);
    if (result && result != -ENOMEM && source->is_quiet)
        return DP_QUERY_BROKEN;
    return result ? dp_query_refuse(verb, file, result, &error) : 0;
}

/* The advice of a message about memory: what would allow more. */
static const char *more_memory(size_t *bytes)
{
    static const int kinds[] = {RLIMIT_AS, RLIMIT_DATA};
    const char *advice =
        memory_is_all ? "the machine or its control group has no more" : "a higher --limit allows more";
    *bytes = memory_bytes;
    for (int i = 0; i < 2; i++) {
        struct rlimit limit;
        if (!getrlimit(kinds[i], &limit) && limit.rlim_cur < *bytes) {
            *bytes = limit.rlim_cur;
            advice = i ? "a higher ulimit -d allows more" : "a higher ulimit -v allows more";
        }
    }
    return advice;
}

int dp_query_refuse(const char *verb, const char *file, int result, const struct dp_decode_error *error)
{
    size_t bytes;
    const char *advice = more_memory(&bytes);
    if (result == -ENOMEM)
        dp_query_print_error(verb, "%s: more than %zu MiB of memory needed; %s", dp_query_file_name(file), bytes >> 20,
                             advice);
    else /* with a bad byte, the file may not be a profile at all */
        dp_query_print_error(
            verb, "%s: %s%s", dp_query_file_name(file),
            strncmp(error->line, "byte ", 5) ? "" : "no pprof profile, or a broken one: ", error->line);
    return DP_EXIT_FAILED;
}

void dp_query_source_fini(struct dp_query_source *source)
{
    dp_decode_fini(&source->decode);
    dp_decode_input_fini(&source->input);
}

bool dp_query_file_parse(const char *file, struct dp_query_file *name)
{
    struct dp_profile_name parts;
    if (!dp_profile_name_parse(file, &parts))
        return false;
    name->file = file;
    name->program = parts.program;
    name->n_program = parts.n_program;
    name->n_process = (size_t)(parts.program - file) + parts.n_process;
    name->seq = parts.seq;
    name->kind = parts.kind;
    name->n_kind = parts.n_kind;
    name->kind_id = parts.kind_id;
    return true;
}

const char *dp_query_file_program(const char *file, size_t *n_bytes)
{
    struct dp_query_file name = {0};
    *n_bytes = dp_query_file_parse(file, &name) ? name.n_program : 0;
    return name.program;
}

/* Groups files by process, the newest first. */
static int compare_names(const void *a, const void *b)
{
    const struct dp_query_file *x = a, *y = b;
    size_t n = x->n_process < y->n_process ? x->n_process : y->n_process;
    int order = memcmp(x->file, y->file, n);
    if (!order && x->n_process != y->n_process)
        order = x->n_process < y->n_process ? -1 : 1;
    if (!order)
        order = strcmp(x->kind, y->kind);
    if (!order)
        order = (x->stamp > y->stamp) - (x->stamp < y->stamp);
    if (!order)
        order = (x->seq < y->seq) - (x->seq > y->seq);
    return order ? order : (x->position > y->position) - (x->position < y->position);
}

/* Whether two files are of processes of one program with one PID, in one directory. */
static bool have_one_pid(const struct dp_query_file *x, const struct dp_query_file *y)
{
    return x->n_process == y->n_process && !memcmp(x->file, y->file, x->n_process);
}

bool dp_query_file_is_same(const struct dp_query_file *x, const struct dp_query_file *y)
{
    return x->stamp == y->stamp && have_one_pid(x, y) && !strcmp(x->kind, y->kind);
}

/* Two containers that write into one directory may both have a process 1. */
static void find_shared_pids(struct dp_query_file *names, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        bool is_shared = false;
        for (end = i + 1; end < n && have_one_pid(&names[i], &names[end]); end++)
            is_shared |= names[end].stamp != names[i].stamp;
        for (size_t j = i; is_shared && j < end; j++)
            names[j].pid_stamp = names[j].stamp;
    }
}

void dp_query_file_print_pid(const struct dp_query_file *name, char to[DP_QUERY_PID_BYTES])
{
    const char *pid = name->program + name->n_program + 1;
    int n = snprintf(to, DP_QUERY_PID_BYTES, "%.*s", (int)(name->file + name->n_process - pid), pid);
    if (name->pid_stamp && n < DP_QUERY_PID_BYTES)
        snprintf(to + n, DP_QUERY_PID_BYTES - (size_t)n, "/%04x", (unsigned)(name->pid_stamp & 0xffff));
}

size_t dp_query_files_sort(char **files, size_t n, struct dp_query_file *names)
{
    size_t n_names = 0;
    for (size_t i = 0; i < n; i++) {
        struct dp_stamp stamp = {0};
        if (!dp_query_file_parse(files[i], &names[n_names]))
            continue;
        dp_stamp_read(AT_FDCWD, files[i], &stamp); /* errors are reported later, when it is read as a profile */
        names[n_names].stamp = stamp.process;
        names[n_names].pid_stamp = 0;
        names[n_names++].position = i;
    }
    qsort(names, n_names, sizeof *names, compare_names);
    find_shared_pids(names, n_names);
    return n_names;
}
