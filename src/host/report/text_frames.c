/* SPDX-License-Identifier: MIT */
/*
 * host/report/text_frames.c - names frames for people, in lines that pprof skips as comments. A control character in a
 * name, which a runtime or a file's path may have, is written as a space: else one name could pretend to be a row.
 */
#include "host/report/text_frames.h"

#include "base/text.h"
#include "host/objects/functions.h"
#include "host/symbols/symbols_lock.h"
#include "host/symbols/maps.h"

#include <string.h>

#define NAME_BYTES 2048 /* C++ has long ones; the rest is cut off */

static int write_line(uint64_t address, const struct dp_symbol_line *line, dp_pprof_write_fn fn, void *ctx)
{
    char text[NAME_BYTES + 640];
    size_t n = dp_text_format(text, sizeof text, address ? "#\t0x%llx\t" : "#\t\t", (unsigned long long)address);
    char *name = text + n;
    n += dp_text_format(text + n, NAME_BYTES, "%s", line->name);
    if (line->file)
        n += dp_text_format(text + n, sizeof text - n - 1, "\t%s:%lld", line->file, (long long)line->line);
    for (; name < text + n; name++)
        if ((unsigned char)*name < ' ' && *name != '\t')
            *name = ' ';
    text[n++] = '\n';
    return fn(ctx, text, n);
}

size_t dp_report_text_place_of(dp_frame_id id, char *text, size_t size)
{
    unsigned long long pc = dp_frame_get(id)->pc;
    dp_symbols_lock(true);
    struct dp_symbols_mapping mapping = dp_symbols_maps_get(dp_symbols_maps_find(id));
    dp_symbols_unlock();
    const char *slash = mapping.file ? strrchr(mapping.file, '/') : NULL;
    if (!slash || pc < mapping.start || pc >= mapping.limit)
        return dp_text_format(text, size, "0x%llx", pc);
    return dp_text_format(text, size, "%s+0x%llx", slash + 1, pc - mapping.start + mapping.offset);
}

static int write_code(dp_frame_id id, enum dp_symbolize how, struct dp_symbols_files *files, dp_pprof_write_fn fn,
                      void *ctx)
{
    uintptr_t pc = dp_frame_get(id)->pc;
    dp_symbols_lock(true);
    const struct dp_symbols_symbol *symbol = dp_symbols_find(files, id, pc, dp_symbols_maps_find(id), how);
    dp_symbols_unlock();
    char place[512];
    struct dp_symbol_line line = {.name = place};
    int err = 0;
    if (!symbol) {
        dp_report_text_place_of(id, place, sizeof place);
        err = write_line(pc + 1, &line, fn, ctx);
    }
    for (int i = 0; symbol && i < symbol->n_lines && !err; i++) {
        const struct dp_symbols_function *f = symbol->lines[i].function;
        line = (struct dp_symbol_line){.name = f->name, .file = f->file, .line = symbol->lines[i].line};
        err = write_line(pc + 1, &line, fn, ctx);
    }
    return err;
}

int dp_report_text_write_frames(const dp_frame_id *frames, size_t n, enum dp_symbolize how,
                                struct dp_symbols_files *files, dp_pprof_write_fn fn, void *ctx)
{
    int err = 0;
    for (size_t i = 0; i < n && !err; i++) {
        const struct dp_frame *frame = dp_frame_get(frames[i]);
        struct dp_symbol_line line = {.name = dp_frame_synthetic_name(frames[i])};
        if (frames[i] >= DP_FRAME_FIRST_REAL && frame->type == DP_FRAME_CODE) {
            err = write_code(frames[i], how, files, fn, ctx);
        } else if (frame->type == DP_FRAME_NAMED) {
            struct dp_function f = dp_function_get((uint32_t)(frame->pc >> 32));
            line =
                (struct dp_symbol_line){.name = f.name, .file = *f.file ? f.file : NULL, .line = (uint32_t)frame->pc};
        }
        if (line.name)
            err = write_line(0, &line, fn, ctx);
    }
    return err;
}
