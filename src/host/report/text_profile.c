/* SPDX-License-Identifier: MIT */
/*
 * host/report/text_profile.c - writes profiles and names as text, without the encoder.
 *
 * Source of the format: google/pprof, profile/legacy_profile.go. Its reader scales values by the rate in a heap_v2
 * header; the values here are scaled already, so the header has a rate of 1. The reader subtracts 1 from every address,
 * so return addresses are written. Frames without an address are left out of a row; a row with only such frames keeps
 * its values. Behind each row, lines that begin with # name its frames; the reader skips them.
 */
#include "host/report/text_profile.h"

#include "base/process.h"
#include "base/text.h"
#include "host/report/delta.h"
#include "host/report/kind_source.h"
#include "host/report/table_source.h"
#include "host/report/text_frames.h"
#include "host/table/table.h"
#include "host/symbols/symbols_lock.h"
#include "host/symbols/maps.h"
#include "host/symbols/symbol.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 512

static int write_line(dp_pprof_write_fn fn, void *ctx, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int write_line(dp_pprof_write_fn fn, void *ctx, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    size_t n = dp_text_vformat(line, sizeof line, 0, format, args);
    va_end(args);
    return fn(ctx, line, n);
}

static int write_header(const struct dp_kind_source *source, const struct dp_rows *rows, dp_pprof_write_fn fn,
                        void *ctx)
{
    char text[LINE_BYTES];
    return fn(ctx, text, source->text_header(rows, text, sizeof text));
}

static int write_row(unsigned kind, const struct dp_row *row, enum dp_symbolize how, struct dp_symbols_files *files,
                     dp_pprof_write_fn fn, void *ctx)
{
    char text[LINE_BYTES];
    dp_frame_id room[DP_EMIT_STACK_MAX];
    size_t n;
    const dp_frame_id *frames = dp_report_table_all_frames(kind, dp_table_record(kind, row->id), room, &n);
    int err = fn(ctx, text, dp_kind_source_of(kind)->text_row(row->values, text, sizeof text));
    for (size_t i = 0; !err && i < n; i++) {
        const struct dp_frame *frame = dp_frame_get(frames[i]);
        if (frames[i] >= DP_FRAME_FIRST_REAL && frame->type == DP_FRAME_CODE)
            err = write_line(fn, ctx, " 0x%llx", (unsigned long long)frame->pc + 1);
    }
    if (!err)
        err = fn(ctx, "\n", 1);
    return err || how == DP_SYMBOLIZE_NONE ? err : dp_report_text_write_frames(frames, n, how, files, fn, ctx);
}

/*
 * Ends the rows: with dashes in the one format, where a word would be taken for a row, and with a keyword in the other.
 */
static int write_mapped(const struct dp_kind_source *source, dp_pprof_write_fn fn, void *ctx)
{
    int err = fn(ctx, source->text_end, strlen(source->text_end));
    int fd = dp_process_open("maps");
    char buf[4096];
    ssize_t n;
    while (!err && fd >= 0 && (n = read(fd, buf, sizeof buf)) > 0)
        err = fn(ctx, buf, (size_t)n);
    if (fd >= 0)
        close(fd);
    return err;
}

static int begin_names(enum dp_symbolize how)
{
    dp_symbols_load(how);
    dp_symbols_lock(true);
    int err = dp_symbols_maps_begin();
    dp_symbols_unlock();
    return err;
}

int dp_report_text_write_profile(unsigned kind, unsigned locks, enum dp_symbolize how, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_rows rows = {0};
    struct dp_symbols_files files = {0};
    const struct dp_kind_source *source = kind < DP_KIND_TABLES ? dp_kind_source_of(kind) : NULL;
    int err = source && source->text_row ? 0 : -EINVAL;
    if (!err)
        err = dp_kind_source_scan(kind, locks, how, &files, NULL, &rows);
    if (!err)
        err = write_header(source, &rows, fn, ctx);
    if (!err)
        err = begin_names(how);
    for (size_t i = 0; !err && i < rows.n; i++)
        err = write_row(kind, &rows.at[i], how, &files, fn, ctx);
    dp_symbols_close(&files);
    if (!err)
        err = write_mapped(source, fn, ctx);
    dp_vec_fini(&rows);
    return err;
}

size_t dp_report_text_name_of(struct dp_symbols_files *files, dp_frame_id id, uintptr_t pc, char *name, size_t size)
{
    dp_symbols_lock(true);
    const struct dp_symbols_symbol *symbol =
        dp_symbols_find(files, id, pc, dp_symbols_maps_find(id), DP_SYMBOLIZE_FUNCTIONS);
    size_t n = 0;
    if (symbol) {
        n = strnlen(symbol->lines[0].function->name, size - 1);
        memcpy(name, symbol->lines[0].function->name, n);
    }
    name[n] = 0;
    dp_symbols_unlock();
    return n;
}

int dp_report_text_write_symbols(const uintptr_t *addresses, size_t n, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_symbols_files files = {0};
    int err = begin_names(DP_SYMBOLIZE_FUNCTIONS);
    for (size_t i = 0; !err && i < n; i++) {
        char name[LINE_BYTES - 32];
        dp_frame_id id = dp_frame_find(addresses[i]);
        if (id && dp_report_text_name_of(&files, id, addresses[i], name, sizeof name))
            err = write_line(fn, ctx, "0x%llx %s\n", (unsigned long long)addresses[i], name);
    }
    dp_symbols_close(&files);
    return err;
}
