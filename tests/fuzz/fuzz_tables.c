/* SPDX-License-Identifier: MIT */
/*
 * fuzz_tables.c - fuzzes the reader of another process's tables, and the reports that work on them. A valid file is
 * made once, with a few records of each kind. The input changes it: {array (0: the header), offset (2 bytes), 8 bytes}
 * again and again, 11 bytes each; 255 as the array cuts the file short.
 */
#include "base/stats.h"
#include "config/config.h"
#include "host/api/adopt.h"
#include "host/api/build_id.h"
#include "host/api/recording.h"
#include "host/objects/frames.h"
#include "host/objects/functions.h"
#include "host/report/profile.h"
#include "host/report/settings.h"
#include "host/shared/table_file.h"
#include "host/symbols/outside.h"
#include "host/table/label_sets.h"
#include "host/table/labels.h"
#include "host/table/record.h"

#include <deltaprof/heap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { CHANGE_BYTES = 11, CUT = 255, RECORDS = 5 };

static int fd = -1;
static struct dp_tables_file header;

static void add_records(void)
{
    static const struct deltaprof_function function = {
        .name = "f", .n_name = 1, .file = "g.py", .n_file = 4, .first_line = 3};
    uint32_t heap = deltaprof_heap_register("arena"), set = dp_label_set_find(0, "key", "value");
    uint32_t named = deltaprof_function_find(&function);
    for (unsigned i = 1; i <= RECORDS; i++) {
        dp_frame_id frames[] = {dp_frame_intern((uintptr_t)add_records + i), dp_frame_intern((uintptr_t)malloc + i),
                                dp_frame_intern_named(dp_function_frame(named, i)), DP_FRAME_OTHER};
        struct dp_stack stack = {.hash = dp_stack_hash(frames, 4), .depth = 4, .frames = frames};
        for (unsigned kind = 0; kind < DP_KIND_CHAIN; kind++) {
            uint32_t lock = kind == DP_KIND_MUTEX || kind == DP_KIND_BLOCK ? 1 : 0;
            dp_record_id id;
            dp_record_add(kind, kind ? 0 : (uint8_t)heap, dp_labels_with_set(lock, set), &stack, 3, 300 * i, &id);
        }
        dp_frame_id ends[] = {i, i};
        struct dp_stack chain = {.hash = dp_stack_hash(ends, 2), .depth = 2, .frames = ends};
        dp_record_id id;
        dp_record_add(DP_KIND_CHAIN, 0, 0, &chain, 1, 100, &id);
    }
}

/* What the process would have in its file. */
static uint32_t count_used(int id)
{
    const struct dp_shared_array *array = dp_shared_array((enum dp_tables_array)id);
    uint32_t n = array->used ? dp_load_relaxed(array->used) : 64;
    return n < array->most ? n : array->most;
}

static void make_file(void)
{
    static struct dp_config conf;
    dp_config_init(&conf);
    conf.memory = 4 << 20;
    conf.heap_rate = 1;
    if (dp_record_init(&conf) || dp_report_init(&conf))
        abort();
    add_records();
    const struct dp_tables_file *own = dp_shared_file_header();
    header = *own;
    memcpy(header.magic, DP_TABLE_FILE_MAGIC, sizeof DP_TABLE_FILE_MAGIC);
    dp_outside_build_id(&header);
    header.header_bytes = DP_TABLE_FILE_HEADER;
    header.pid = 1;
    header.memory = conf.memory;
    header.heap_rate = 1;
    header.depth = conf.depth;
    header.origin_wall_ns = 1;
    strcpy(header.program, "program");
    strcpy(header.exe, "/proc/self/exe");
    fd = memfd_create("tables", MFD_CLOEXEC);
    for (int id = 0; id < DP_ARRAYS; id++) {
        dp_store_relaxed(&header.arrays[id].committed, count_used(id));
        dp_store_relaxed(&dp_shared_array((enum dp_tables_array)id)->committed,
                         dp_shared_array((enum dp_tables_array)id)->most);
    }
}

/* Writes the valid file, from the copy that was kept. */
static void restore(void)
{
    static char *kept[DP_ARRAYS];
    if (ftruncate(fd, 0) || ftruncate(fd, (off_t)header.n_bytes))
        abort();
    for (int id = 0; id < DP_ARRAYS; id++) {
        const struct dp_shared_array *array = dp_shared_array((enum dp_tables_array)id);
        size_t n_bytes = count_used(id) * array->each_bytes;
        n_bytes = array->at ? n_bytes : 0;
        if (!kept[id] && n_bytes) {
            kept[id] = malloc(n_bytes);
            memcpy(kept[id], array->at, n_bytes);
            dp_store_relaxed(&header.arrays[id].committed, count_used(id));
        }
        n_bytes = dp_load_relaxed(&header.arrays[id].committed) * array->each_bytes;
        if (kept[id] && pwrite(fd, kept[id], n_bytes, (off_t)header.arrays[id].offset) < 0)
            abort();
    }
    if (pwrite(fd, &header, sizeof header, 0) < 0)
        abort();
}

static int drop_part(void *ctx, const void *bytes, size_t n)
{
    (void)ctx, (void)bytes, (void)n;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char why[512];
    bool is_changed = n_bytes >= CHANGE_BYTES;
    if (fd < 0)
        make_file();
    restore();
    for (; n_bytes >= CHANGE_BYTES; data += CHANGE_BYTES, n_bytes -= CHANGE_BYTES) {
        uint16_t offset;
        memcpy(&offset, data + 1, sizeof offset);
        uint64_t base = data[0] ? header.arrays[(data[0] - 1u) % DP_ARRAYS].offset : 0;
        if (data[0] == CUT ? ftruncate(fd, offset * 64) : pwrite(fd, data + 3, 8, (off_t)(base + offset)) < 0)
            abort();
    }
    if (dp_outside_adopt(fd, "", why, sizeof why)) {
        if (!is_changed)
            abort(); /* the valid file is accepted */
        return 0;
    }
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        struct dp_consumer *c = dp_consumer_new(kind, NULL);
        if (!c)
            continue;
        dp_consumer_baseline_adopt(c, 0);
        dp_consumer_write(c, DP_WRITE_CUMULATIVE | DP_WRITE_RAW, drop_part, NULL, NULL);
        dp_consumer_write(c, DP_WRITE_RAW, drop_part, NULL, NULL);
        dp_consumer_commit(c);
        dp_consumer_free(c);
    }
    return 0;
}
