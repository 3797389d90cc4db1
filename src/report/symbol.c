/* SPDX-License-Identifier: MIT */
/*
 * report/symbol.c - names by frame id, asked for once and kept, the noes too. The files that the module has open are
 * closed when the last report under way ends, so between reports nothing is held but the names themselves.
 *
 * The module's libraries allocate from the host's heap; the guard is held around every call, so the profile of a
 * program does not show the profiler.
 */
#include "report/symbol.h"

#include "base/log.h"
#include "base/mem.h"
#include "report/maps.h"
#include "report/names.h"

#include <deltaprof/hooks.h>
#include <string.h>
#include <sys/single_threaded.h>

#define LINES_MAX 64 /* inlined frames of one location that are kept */

extern const struct dp_symbolize_ops dp_module_symbolize __attribute__((weak)); /* in a static build */
static struct dp_module module = {.name = "symbolize"};

typedef DP_VEC(const struct dp_symbol *) by_frame;

static struct {
    by_frame cache[2]; /* functions, lines; NULL: not asked yet */
    struct dp_names names;
    char *chunk; /* symbols are carved from it */
    size_t left;
    void *session;
    DP_VEC(int) handles; /* by mapping; 0: not added yet, else handle + 1 or -errno */
    unsigned users;
} symbols;

static const struct dp_symbol unknown = {0};
static bool confined; /* a child forked from a process with threads: the loader may be locked for ever */
static bool threaded; /* there were threads when the last fork began; glibc may say otherwise in the child */

static const struct dp_symbolize_ops *opened(void)
{
    return &dp_module_symbolize ? &dp_module_symbolize : dp_module_opened(&module);
}

void dp_symbol_load(void)
{
    static struct dp_log_cause cause;
    if (opened() || confined)
        return;
    int64_t kept = deltaprof_guard_enter();
    if (!dp_module_open(&module))
        dp_log_once(&cause, 1, "functions are not named: module symbolize: %s", dp_load_acquire(&module.error));
    deltaprof_guard_leave(kept);
}

void dp_symbol_begin(void)
{
    symbols.users++;
}

void dp_symbol_end(void)
{
    if (--symbols.users || !symbols.session)
        return;
    int64_t kept = deltaprof_guard_enter();
    opened()->close(symbols.session);
    deltaprof_guard_leave(kept);
    symbols.session = NULL;
    dp_vec_fini(&symbols.handles);
}

/* ---- the cache -------------------------------------------------------------------------------------------------- */

static struct dp_symbol *carve(int n_lines)
{
    size_t n_bytes = sizeof(struct dp_symbol) + (size_t)n_lines * sizeof(struct dp_symbol_line);
    if (n_bytes > symbols.left) {
        symbols.left = (size_t)64 << 10;
        symbols.chunk = dp_mem_map(symbols.left);
        if (!symbols.chunk)
            symbols.left = 0;
    }
    if (n_bytes > symbols.left)
        return NULL;
    struct dp_symbol *symbol = (struct dp_symbol *)symbols.chunk;
    symbols.chunk += n_bytes;
    symbols.left -= n_bytes;
    return symbol;
}

static const char *keep(const char *text)
{
    return text ? dp_names_keep(&symbols.names, text, strlen(text)) : NULL;
}

static const struct dp_symbol *keep_lines(const struct dp_symbol_line *lines, int n)
{
    struct dp_symbol *symbol = n > 0 ? carve(n) : NULL;
    if (!symbol)
        return &unknown;
    symbol->n_lines = n;
    for (int i = 0; i < n; i++) {
        symbol->lines[i] = lines[i];
        symbol->lines[i].name = keep(lines[i].name);
        symbol->lines[i].system_name = keep(lines[i].system_name);
        symbol->lines[i].file = keep(lines[i].file);
        if (!symbol->lines[i].name)
            return &unknown;
    }
    return symbol;
}

/* ---- asking the module ------------------------------------------------------------------------------------------ */

/* The link to the file itself, which serves when its name is gone or names another; the kernel may not let us. */
static void map_files_link(char *text, const struct dp_mapping *m)
{
    text = stpcpy(text, "/proc/self/map_files/");
    uintptr_t ends[2] = {m->start, m->limit};
    for (int i = 0; i < 2; i++) {
        int shift = 60;
        while (shift && !(ends[i] >> shift))
            shift -= 4;
        for (; shift >= 0; shift -= 4)
            *text++ = "0123456789abcdef"[ends[i] >> shift & 15];
        *text++ = i ? 0 : '-';
    }
}

static int open_file(const struct dp_symbolize_ops *ops, const struct dp_mapping *m)
{
    const struct dp_object *o = m->object ? dp_object_get(m->object) : NULL;
    const uint8_t *build_id = o ? o->build_id : NULL;
    size_t n = o ? o->build_id_bytes : 0;
    char link[64];
    map_files_link(link, m);
    int handle = -1;
    if (o && !*dp_object_name(o))
        handle = ops->add(symbols.session, "/proc/self/exe", build_id, n, m->bias);
    if (handle < 0 && *m->file == '/')
        handle = ops->add(symbols.session, m->file, build_id, n, m->bias);
    if (handle < 0 && *m->file == '/')
        handle = ops->add(symbols.session, link, build_id, n, m->bias);
    return handle;
}

/* The module's handle of a mapping; negative: none. */
static int handle_of(const struct dp_symbolize_ops *ops, uint32_t index)
{
    if (!symbols.session && !(symbols.session = ops->open()))
        return -1;
    size_t want = (size_t)index + 1;
    if (want > symbols.handles.n) {
        if (!dp_vec_room(&symbols.handles, want - symbols.handles.n))
            return -1;
        memset(symbols.handles.at + symbols.handles.n, 0, (want - symbols.handles.n) * sizeof(int));
        symbols.handles.n = want;
    }
    int *handle = &symbols.handles.at[index];
    if (!*handle) {
        struct dp_mapping m = dp_maps_get(index);
        int got = open_file(ops, &m);
        *handle = got < 0 ? got : got + 1;
    }
    return *handle < 0 ? *handle : *handle - 1;
}

static const struct dp_symbol *ask(const struct dp_symbolize_ops *ops, uintptr_t pc, uint32_t index,
                                   enum dp_symbolize how)
{
    struct dp_symbol_line lines[LINES_MAX];
    int64_t kept = deltaprof_guard_enter();
    int handle = handle_of(ops, index);
    int n = handle < 0 ? 0 : ops->lookup(symbols.session, handle, pc, how, lines, LINES_MAX);
    const struct dp_symbol *symbol = keep_lines(lines, n);
    deltaprof_guard_leave(kept);
    return symbol;
}

const struct dp_symbol *dp_symbol_find(uint32_t frame, uintptr_t pc, uint32_t index, enum dp_symbolize how)
{
    if (how == DP_SYMBOLIZE_NONE || index == DP_MAPPING_ANON)
        return NULL;
    by_frame *cache = &symbols.cache[how == DP_SYMBOLIZE_LINES];
    const struct dp_symbol *symbol = frame < cache->n ? cache->at[frame] : NULL;
    if (!symbol) {
        const struct dp_symbolize_ops *ops = opened();
        if (!ops)
            return NULL;
        symbol = ask(ops, pc, index, how);
        size_t want = (size_t)frame + 1;
        if (want > cache->n && dp_vec_room(cache, want - cache->n))
            cache->n = want;
        if (frame < cache->n)
            cache->at[frame] = symbol;
    }
    return symbol->n_lines ? symbol : NULL;
}

void dp_symbol_abandon_session(void)
{
    symbols.users = 0;
    symbols.session = NULL;
    memset(&symbols.handles, 0, sizeof symbols.handles);
}

void dp_symbol_abandon(void)
{
    memset(&symbols, 0, sizeof symbols);
}

void dp_symbol_fork_prepare(void)
{
    threaded = !__libc_single_threaded;
}

void dp_symbol_fork_child(void)
{
    confined = confined || threaded;
}

bool dp_symbol_confined(void)
{
    return confined;
}
