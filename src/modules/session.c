/* SPDX-License-Identifier: MIT */
/*
 * modules/session.c - keeps opened files by handle, and demangles the names that are found. A session lives for one
 * report or tick; its end closes and frees everything.
 */
#include "modules/session.h"

#include "modules/demangle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 4096 /* longest demangled name; longer ones are cut */
#define LINES_MAX  64

struct session {
    struct elffile *files;
    int n_files;
    dp_session_lookup_fn lookup;
    void (*close_file)(struct elffile *);
    char *names[LINES_MAX]; /* demangled names of the last look-up */
};

void *dp_session_open(dp_session_lookup_fn lookup, void (*close_file)(struct elffile *))
{
    struct session *s = calloc(1, sizeof *s);
    if (s) {
        s->lookup = lookup;
        s->close_file = close_file;
    }
    return s;
}

static void forget_names(struct session *s)
{
    for (int i = 0; i < LINES_MAX; i++) {
        free(s->names[i]);
        s->names[i] = NULL;
    }
}

void dp_session_close(void *session)
{
    struct session *s = session;
    for (int i = 0; i < s->n_files; i++) {
        if (s->close_file)
            s->close_file(&s->files[i]);
        dp_elffile_close(&s->files[i]);
    }
    forget_names(s);
    free(s->files);
    free(s);
}

int dp_session_add(void *session, const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias)
{
    struct session *s = session;
    struct elffile *files = realloc(s->files, ((size_t)s->n_files + 1) * sizeof *files);
    if (!files)
        return -ENOMEM;
    s->files = files;
    int err = dp_elffile_open(&files[s->n_files], path, build_id, n_build_id, bias);
    return err ? err : s->n_files++;
}

struct elffile *dp_session_file(void *session, int handle)
{
    return &((struct session *)session)->files[handle];
}

int dp_session_function(struct elffile *file, uintptr_t pc, struct dp_symbol_line *lines)
{
    const char *name = dp_elffile_function(file, pc);
    if (name)
        lines[0] = (struct dp_symbol_line){.system_name = name};
    return name != NULL;
}

/* Cuts a symbol version off: symbol tables of shared libraries have name@@VERSION. */
static const char *without_version(const char *system_name, char *name)
{
    size_t n = strcspn(system_name, "@");
    if (!system_name[n] || n == 0 || n >= NAME_BYTES)
        return system_name;
    memcpy(name, system_name, n);
    name[n] = 0;
    return name;
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
            lines[i].name = name ? without_version(lines[i].system_name, name) : "[unnamed]";
    }
}

int dp_session_lookup(void *session, int handle, uintptr_t pc, struct dp_symbol_line *lines, int max)
{
    struct session *s = session;
    forget_names(s);
    int n = s->lookup(&s->files[handle], pc, lines, max < LINES_MAX ? max : LINES_MAX);
    demangle(s, lines, n);
    return n;
}

int dp_session_variable(void *session, int handle, uintptr_t address, struct dp_symbol_line *line)
{
    struct session *s = session;
    uint64_t offset = 0;
    forget_names(s);
    const char *name = dp_elffile_variable(&s->files[handle], address, &offset);
    if (!name)
        return 0;
    *line = (struct dp_symbol_line){.system_name = name, .line = (int64_t)offset};
    demangle(s, line, 1);
    return 1;
}
