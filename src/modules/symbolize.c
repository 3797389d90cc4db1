/* SPDX-License-Identifier: MIT */
/*
 * modules/symbolize.c - the symbolize module: names from ELF files through elfutils.
 *
 * One Dwfl a file: ranges of a library and of its successor at the same address may overlap, which one Dwfl would
 * refuse. Debug files are found by .build-id directories and .gnu_debuglink, and by debuginfod where the user has set
 * DEBUGINFOD_URLS. What is opened lives until the session is closed, that is to the end of a report.
 */
#include "modules/demangle.h"
#include "modules/elffile.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 4096 /* of a demangled name; longer ones are clipped */
#define LINES_MAX  64

struct session {
    struct elffile *files;
    int n_files;
    char *names[LINES_MAX]; /* what the last lookup demangled */
};

/* 0: the file at fd is the one that was mapped. */
static int check_build_id(int fd, const uint8_t *build_id, size_t n_build_id)
{
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    const void *found;
    ssize_t n = elf ? dwelf_elf_gnu_build_id(elf, &found) : -1;
    int err = !elf                                                                              ? -ENOEXEC
              : n_build_id && (n != (ssize_t)n_build_id || memcmp(found, build_id, n_build_id)) ? -ESTALE
                                                                                                : 0;
    elf_end(elf);
    return err;
}

/* The file that .gnu_debuglink names, where gdb looks for it; judged by its build-id. */
static int find_by_link(const uint8_t *build_id, int n_build_id, const char *file, const char *link, char **found)
{
    static const char *const places[][2] = {{"", ""}, {"", "/.debug"}, {"/usr/lib/debug", ""}};
    const char *slash = file ? strrchr(file, '/') : NULL;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        char *path;
        if (asprintf(&path, "%s%.*s%s/%s", places[i][0], (int)(slash - file), file, places[i][1], link) < 0)
            return -1;
        int fd = strcmp(path, file) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
        if (fd >= 0 && !check_build_id(fd, build_id, (size_t)n_build_id)) {
            *found = path;
            return fd;
        }
        if (fd >= 0)
            close(fd);
        free(path);
    }
    return -1;
}

/*
 * Without DEBUGINFOD_URLS the library's own search would still start libcurl, and with it TLS libraries, in the host:
 * perhaps while it exits and has put them away itself.
 */
static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file,
                          const char *link, GElf_Word crc, char **found)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (urls && *urls)
        return dwfl_standard_find_debuginfo(module, userdata, name, base, file, link, crc, found);
    int fd = dwfl_build_id_find_debuginfo(module, userdata, name, base, file, link, crc, found);
    const unsigned char *build_id;
    GElf_Addr address;
    int n = fd < 0 && link ? dwfl_module_build_id(module, &build_id, &address) : 0;
    return n > 0 ? find_by_link(build_id, n, file, link, found) : fd;
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

static void *session_open(void)
{
    return calloc(1, sizeof(struct session));
}

static void forget_names(struct session *s)
{
    for (int i = 0; i < LINES_MAX; i++) {
        free(s->names[i]);
        s->names[i] = NULL;
    }
}

static void session_close(void *session)
{
    struct session *s = session;
    for (int i = 0; i < s->n_files; i++) {
        dwfl_end(s->files[i].dwfl);
        free(s->files[i].functions);
        free(s->files[i].units);
    }
    forget_names(s);
    free(s->files);
    free(s);
}

/* Debug files are looked for beside the file itself, so a link of /proc is read first. */
static const char *real_name(const char *path, char buffer[PATH_MAX])
{
    static const char deleted[] = " (deleted)";
    ssize_t n = strncmp(path, "/proc/", 6) ? -1 : readlink(path, buffer, PATH_MAX - 1);
    if (n < 0)
        return path;
    buffer[n] = 0;
    if ((size_t)n >= sizeof deleted && !strcmp(buffer + n - (sizeof deleted - 1), deleted))
        buffer[n - (ssize_t)(sizeof deleted - 1)] = 0;
    return buffer;
}

static int report(struct elffile *file, const char *path, int fd, uintptr_t bias)
{
    char buffer[PATH_MAX];
    file->dwfl = dwfl_begin(&callbacks);
    if (!file->dwfl)
        return -ENOMEM;
    dwfl_report_begin(file->dwfl);
    file->module = dwfl_report_elf(file->dwfl, "", real_name(path, buffer), fd, bias, true);
    if (file->module && !dwfl_report_end(file->dwfl, NULL, NULL))
        return 0;
    int owned = file->module != NULL; /* then dwfl_end closes fd */
    dwfl_end(file->dwfl);
    if (owned)
        return -ENOEXEC;
    close(fd);
    return -ENOEXEC;
}

static int session_add(void *session, const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias)
{
    struct session *s = session;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    elf_version(EV_CURRENT);
    int err = check_build_id(fd, build_id, n_build_id);
    struct elffile *files = err ? NULL : realloc(s->files, ((size_t)s->n_files + 1) * sizeof *files);
    if (!files) {
        close(fd);
        return err ? err : -ENOMEM;
    }
    s->files = files;
    struct elffile *file = &files[s->n_files];
    memset(file, 0, sizeof *file);
    err = report(file, path, fd, bias);
    return err ? err : s->n_files++;
}

/* Fills in name from system_name, in the session's memory. */
static void demangle(struct session *s, struct dp_symbol_line *lines, int n)
{
    for (int i = 0; i < n; i++) {
        char *name = lines[i].system_name ? malloc(NAME_BYTES) : NULL;
        s->names[i] = name;
        if (name && dp_demangle(lines[i].system_name, name, NAME_BYTES))
            lines[i].name = name;
        else if (!lines[i].name)
            lines[i].name = lines[i].system_name ? lines[i].system_name : "[unnamed]";
    }
}

static int session_lookup(void *session, int handle, uintptr_t pc, enum dp_symbolize how, struct dp_symbol_line *lines,
                          int max)
{
    struct session *s = session;
    struct elffile *file = &s->files[handle];
    int n = 0;
    forget_names(s);
    max = max < LINES_MAX ? max : LINES_MAX;
    if (how == DP_SYMBOLIZE_LINES)
        n = elffile_lines(file, pc, lines, max);
    if (!n) {
        const struct function *f = elffile_function(file, pc);
        if (f)
            lines[n++] = (struct dp_symbol_line){.system_name = f->name};
    }
    demangle(s, lines, n);
    return n;
}

__attribute__((visibility("default"))) const struct dp_symbolize_ops dp_module_symbolize = {
    .base = {.abi = DP_MODULE_ABI, .file = "libdw", .probe = (const void *)dwfl_begin},
    .open = session_open,
    .close = session_close,
    .add = session_add,
    .lookup = session_lookup,
};
