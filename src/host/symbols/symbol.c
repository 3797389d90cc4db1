/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/symbol.c - caches symbols by frame id, failed look-ups included. Files are opened when a report needs
 * them and closed at its end, or at the end of the tick that it is part of; between reports only the names are kept.
 *
 * The module's libraries allocate from the host's heap; the guard is held around every call, so the profile of a
 * program does not show the profiler.
 */
#include "host/symbols/symbol.h"

#include "base/epoch.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/text.h"
#include "host/symbols/family.h"
#include "host/symbols/generated.h"
#include "host/symbols/jit_debug.h"
#include "host/symbols/maps.h"
#include "host/symbols/name_set.h"
#include "host/symbols/outside.h"
#include "host/symbols/shield.h"

#include <deltaprof/thread.h>
#include <string.h>
#include <sys/single_threaded.h>

#define LINES_MAX 64 /* the most inlined frames of one location */

/* in a static build */
extern const struct dp_symbolize_ops dp_module_symbolize __attribute__((weak));
extern const struct dp_symbolize_ops dp_module_lines __attribute__((weak));

/* The sources of names. Look-ups hold the symbols lock, opening a module does not. */
static struct dp_module modules[DP_SYMBOL_SOURCES] = {{.name = "symbolize"}, {.name = "lines"}};
static _Atomic bool crashed[DP_SYMBOL_SOURCES]; /* a call of the module crashed: no other follows. relaxed */

/* Where the names of code without a file are kept, behind those of the modules. */
enum { GENERATED = DP_SYMBOL_SOURCES };

static struct {
    DP_VEC(const struct dp_symbols_symbol *) by_frame[DP_SYMBOL_SOURCES + 1]; /* NULL: not asked yet */
    struct dp_symbols_names names;
    char *chunk; /* symbols are allocated from it */
    size_t left;
} symbols;

static const struct dp_symbols_symbol unknown = {0};
static bool loader_unusable; /* a child forked from a process with threads: the loader may be locked for ever */
/* other threads existed when the last fork began; in the child glibc may not know that any more */
static bool threaded;

static const struct dp_symbolize_ops *opened(int source)
{
    const struct dp_symbolize_ops *builtin = source == DP_SYMBOL_BY_LINES ? &dp_module_lines : &dp_module_symbolize;
    if (dp_load_relaxed(&crashed[source]))
        return NULL;
    return builtin ? builtin : dp_module_opened(&modules[source]);
}

static bool load(int source, const char *what_is_missing)
{
    static struct dp_log_cause causes[DP_SYMBOL_SOURCES];
    if (opened(source))
        return true;
    if (dp_load_relaxed(&crashed[source]))
        return false;
    int64_t kept = deltaprof_guard_enter();
    bool open = dp_module_open(&modules[source]) != NULL;
    if (!open)
        dp_log_once(&causes[source], 1, "%s: module %s: %s", what_is_missing, modules[source].name,
                    dp_load_acquire(&modules[source].error));
    deltaprof_guard_exit(kept);
    return open;
}

void dp_symbols_load(enum dp_symbolize how)
{
    if (loader_unusable || how == DP_SYMBOLIZE_NONE)
        return;
    if (how == DP_SYMBOLIZE_LINES && load(DP_SYMBOL_BY_LINES, "source lines are not known, functions only"))
        return;
    load(DP_SYMBOL_BY_SYMBOLS, "functions are not named");
}

void dp_symbols_close(struct dp_symbols_files *files)
{
    int64_t kept = deltaprof_guard_enter();
    for (int i = 0; i < DP_SYMBOL_SOURCES; i++) {
        if (files->by[i].session && opened(i))
            opened(i)->close(files->by[i].session);
        files->by[i].session = NULL;
        dp_vec_fini(&files->by[i].handles);
    }
    files->generated = false;
    deltaprof_guard_exit(kept);
}

/* ---- the cache -------------------------------------------------------------------------------------------------- */

static struct dp_symbols_symbol *allocate(int n_lines)
{
    struct dp_symbols_symbol *symbol;
    size_t n_bytes = sizeof *symbol + (size_t)n_lines * sizeof *symbol->lines;
    if (n_bytes > symbols.left) {
        symbols.left = (size_t)(symbols.chunk ? 64 : 8) << 10; /* many processes name few functions */
        symbols.chunk = dp_mem_map(symbols.left);
        if (!symbols.chunk)
            symbols.left = 0;
    }
    if (n_bytes > symbols.left)
        return NULL;
    symbol = (struct dp_symbols_symbol *)symbols.chunk;
    symbols.chunk += n_bytes;
    symbols.left -= n_bytes;
    return symbol;
}

static const char *intern(const char *text)
{
    return text ? dp_symbols_names_keep(&symbols.names, text, strlen(text)) : NULL;
}

static const struct dp_symbols_function *keep_function(const struct dp_symbol_line *line)
{
    struct dp_symbols_function f = {
        .name = intern(line->name), .file = intern(line->file), .start_line = line->start_line};
    f.system_name = line->system_name ? intern(line->system_name) : f.name;
    return f.name && f.system_name ? dp_symbols_functions_keep(&f) : NULL;
}

static const struct dp_symbols_symbol *keep_lines(const struct dp_symbol_line *lines, int n)
{
    struct dp_symbols_symbol *symbol = n > 0 ? allocate(n) : NULL;
    if (!symbol)
        return &unknown;
    symbol->n_lines = n;
    for (int i = 0; i < n; i++) {
        symbol->lines[i].function = keep_function(&lines[i]);
        symbol->lines[i].line = lines[i].line;
        if (!symbol->lines[i].function)
            return &unknown;
    }
    return symbol;
}

/* ---- asking the module ------------------------------------------------------------------------------------------ */

/*
 * The link in /proc to the mapped file itself: it works if the path was removed or replaced. The kernel may refuse
 * access.
 */
static void map_files_link(char *text, const struct dp_symbols_mapping *m)
{
    text = stpcpy(text, dp_symbols_outside.is_on ? dp_symbols_outside.proc : "/proc/self");
    text = stpcpy(text, "/map_files/");
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

static int open_file(int source, void *session, const struct dp_symbols_mapping *m)
{
    const struct dp_symbolize_ops *ops = opened(source);
    const struct dp_object *o = m->object ? dp_object_get(m->object) : NULL;
    const uint8_t *build_id = o ? o->build_id : NULL;
    size_t n = o ? o->build_id_bytes : 0;
    char link[96], exe[48];
    map_files_link(link, m);
    int handle = -1;
    if (dp_symbols_outside.is_on && o && !*dp_object_name(o)) {
        dp_text_format(exe, sizeof exe, "%s/exe", dp_symbols_outside.proc);
        handle = ops->add(session, exe, build_id, n, m->bias);
        return handle < 0 ? ops->add(session, dp_symbols_outside.exe, build_id, n, m->bias) : handle;
    }
    if (o && !*dp_object_name(o)) /* /proc/self has none once main has left by pthread_exit */
        handle = ops->add(session, "/proc/thread-self/exe", build_id, n, m->bias);
    if (handle < 0 && o && !*dp_object_name(o)) /* before Linux 3.17 */
        handle = ops->add(session, "/proc/self/exe", build_id, n, m->bias);
    if (handle < 0 && *m->file == '/')
        handle = ops->add(session, m->file, build_id, n, m->bias);
    if (handle < 0 && *m->file == '/')
        handle = ops->add(session, link, build_id, n, m->bias);
    if (handle < 0 && n && !strcmp(m->file, "[vdso]"))
        handle = ops->add(session, m->file, build_id, n, m->bias);
    return handle;
}

/* The module's handle of a mapping; negative: none. */
static int handle_of(struct dp_symbols_files *files, int source, uint32_t index)
{
    __typeof__(files->by[0]) *s = &files->by[source];
    if (!s->session && !(s->session = opened(source)->open()))
        return -1;
    size_t want = (size_t)index + 1;
    if (want > s->handles.n) {
        if (!dp_vec_room(&s->handles, want - s->handles.n))
            return -1;
        memset(s->handles.at + s->handles.n, 0, (want - s->handles.n) * sizeof(int));
        s->handles.n = want;
    }
    int *handle = &s->handles.at[index];
    if (!*handle) {
        struct dp_symbols_mapping m = dp_symbols_maps_get(index);
        int got = open_file(source, s->session, &m);
        *handle = got < 0 ? got : got + 1;
    }
    return *handle < 0 ? *handle : *handle - 1;
}

/* A question to the module, and its answer. */
struct question {
    struct dp_symbols_files *files;
    int source;
    uint32_t index;
    uintptr_t pc;
    bool is_data;                 /* pc is an address of data */
    struct dp_symbol_line *lines; /* LINES_MAX */
    int handle, n;
};

static void call_module(void *ctx)
{
    struct question *q = ctx;
    const struct dp_symbolize_ops *ops = opened(q->source);
    void **session = &q->files->by[q->source].session;
    q->handle = handle_of(q->files, q->source, q->index);
    if (q->handle >= 0)
        q->n = q->is_data ? ops->variable(*session, q->handle, q->pc, q->lines)
                          : ops->lookup(*session, q->handle, q->pc, q->lines, LINES_MAX);
}

static void give_module_up(int source, uint32_t index)
{
    struct dp_symbols_mapping m = dp_symbols_maps_get(index);
    dp_store_relaxed(&crashed[source], true);
    dp_log(DP_LOG_ERROR, "module %s: its library crashed while it read the symbols of %s; it is not used any more",
           modules[source].name, m.file);
}

static const struct dp_symbols_symbol *ask(struct dp_symbols_files *files, int source, uint32_t frame, uintptr_t pc,
                                           uint32_t index)
{
    struct dp_symbol_line lines[LINES_MAX];
    struct question q = {.files = files, .source = source, .index = index, .pc = pc, .lines = lines};
    q.is_data = dp_frame_get(frame)->type == DP_FRAME_DATA;
    struct dp_symbols_family_key key;
    int64_t kept = deltaprof_guard_enter();
    bool answered = dp_symbols_shield_call(call_module, &q);
    const struct dp_symbols_symbol *symbol = answered ? keep_lines(lines, q.n) : &unknown;
    if (!answered)
        give_module_up(source, index);
    else if (q.handle >= 0 && q.n >= 0 && dp_symbols_family_key(&key, dp_frame_get(frame), (unsigned)source))
        dp_symbols_family_put(&key, lines, q.n);
    deltaprof_guard_exit(kept);
    return symbol;
}

static void remember(int source, uint32_t frame, const struct dp_symbols_symbol *symbol)
{
    __typeof__(symbols.by_frame[0]) *cache = &symbols.by_frame[source];
    size_t want = (size_t)frame + 1;
    if (want > cache->n && dp_vec_room(cache, want - cache->n))
        cache->n = want;
    if (frame < cache->n)
        cache->at[frame] = symbol;
}

static int source_of(enum dp_symbolize how)
{
    return how == DP_SYMBOLIZE_LINES && opened(DP_SYMBOL_BY_LINES) ? DP_SYMBOL_BY_LINES : DP_SYMBOL_BY_SYMBOLS;
}

/* Looks in the cache, then among the names shared with the family. NULL: not known without reading a file. */
static const struct dp_symbols_symbol *cached(int source, uint32_t frame)
{
    const struct dp_symbols_symbol *symbol =
        frame < symbols.by_frame[source].n ? symbols.by_frame[source].at[frame] : NULL;
    struct dp_symbol_line lines[LINES_MAX];
    _Alignas(8) char text[DP_FAMILY_ENTRY_BYTES];
    struct dp_symbols_family_key key;
    if (symbol || !dp_symbols_family_key(&key, dp_frame_get(frame), (unsigned)source))
        return symbol;
    int n = dp_symbols_family_find(&key, lines, LINES_MAX, text);
    if (n < 0)
        return NULL;
    symbol = keep_lines(lines, n);
    remember(source, frame, symbol);
    return symbol;
}

/* The name of code that was made at run time, kept as it was when the frame was first named. */
static const struct dp_symbols_symbol *generated(uint32_t frame)
{
    const struct dp_symbols_symbol *symbol =
        frame < symbols.by_frame[GENERATED].n ? symbols.by_frame[GENERATED].at[frame] : NULL;
    return symbol && symbol->n_lines ? symbol : NULL;
}

/* The compiler's map and its list for debuggers grow: what is not named yet is asked for again in each report. */
static const struct dp_symbols_symbol *find_generated(struct dp_symbols_files *files, uint32_t frame, uintptr_t pc)
{
    struct dp_symbol_line line;
    const struct dp_symbols_symbol *symbol = generated(frame);
    if (symbol)
        return symbol;
    int64_t kept = deltaprof_guard_enter();
    if (!files->generated) {
        dp_symbols_generated_refresh();
        dp_symbols_jit_debug_refresh();
    }
    files->generated = true;
    bool found = dp_symbols_generated_find(pc, &line) || dp_symbols_jit_debug_find(pc, &line);
    symbol = found ? keep_lines(&line, 1) : NULL;
    deltaprof_guard_exit(kept);
    if (!found)
        return NULL;
    remember(GENERATED, frame, symbol);
    return symbol->n_lines ? symbol : NULL;
}

const struct dp_symbols_symbol *dp_symbols_cached(uint32_t frame, uint32_t index, enum dp_symbolize how, bool *missed)
{
    *missed = false;
    if (how == DP_SYMBOLIZE_NONE)
        return NULL;
    if (index == DP_MAPPING_ANON)
        return generated(frame);
    /* Another process may have the module that this one lacks. */
    const struct dp_symbols_symbol *symbol = how == DP_SYMBOLIZE_LINES ? cached(DP_SYMBOL_BY_LINES, frame) : NULL;
    if (!symbol)
        symbol = cached(DP_SYMBOL_BY_SYMBOLS, frame);
    *missed = !symbol;
    return symbol && symbol->n_lines ? symbol : NULL;
}

const struct dp_symbols_symbol *dp_symbols_find(struct dp_symbols_files *files, uint32_t frame, uintptr_t pc,
                                                uint32_t index, enum dp_symbolize how)
{
    if (how == DP_SYMBOLIZE_NONE)
        return NULL;
    if (index == DP_MAPPING_ANON)
        return find_generated(files, frame, pc);
    int source = source_of(how);
    const struct dp_symbols_symbol *symbol = cached(source, frame);
    if (!symbol) {
        if (!opened(source))
            return NULL;
        symbol = ask(files, source, frame, pc, index);
        remember(source, frame, symbol);
    }
    return symbol->n_lines ? symbol : NULL;
}

void dp_symbols_abandon(void)
{
    memset(&symbols, 0, sizeof symbols);
    dp_symbols_functions_abandon();
    dp_symbols_generated_abandon();
    dp_symbols_jit_debug_abandon();
}

void dp_symbols_fork_prepare(void)
{
    threaded = !__libc_single_threaded;
    dp_symbols_family_fork_prepare();
}

DP_IN_CHILD void dp_symbols_fork_child(void)
{
    loader_unusable = loader_unusable || threaded;
    dp_symbols_shield_fork_child();
}

uint64_t dp_symbols_answers(enum dp_symbolize how)
{
    uint64_t source = how == DP_SYMBOLIZE_NONE ? DP_SYMBOL_SOURCES : (uint64_t)source_of(how);
    bool answers = how != DP_SYMBOLIZE_NONE && opened((int)source);
    return (uint64_t)dp_epoch() << 8 | source << 4 | (uint64_t)how << 2 | (uint64_t)answers << 1 | 1;
}

bool dp_symbols_can_ask(enum dp_symbolize how)
{
    return how != DP_SYMBOLIZE_NONE && (!loader_unusable || opened(source_of(how)));
}

bool dp_symbols_loader_unusable(void)
{
    return loader_unusable;
}
