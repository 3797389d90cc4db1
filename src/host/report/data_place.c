/* SPDX-License-Identifier: MIT */
/*
 * host/report/data_place.c - says where an address of data lies.
 *
 * A variable is found in the symbol tables as functions are, by the frame id of its address. Other addresses are looked
 * up in the live blocks, which are those that were sampled, and then among the mappings of the process. The answers
 * about these are kept: a block may be free when the next report asks. The live blocks
 * are asked first each time, because an address may have become part of another block.
 *
 * Of another process, whose tables were copied, only variables are known: its blocks and mappings are not read.
 */
#include "host/report/data_place.h"

#include "base/clock.h"
#include "base/epoch.h"
#include "base/glob.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/task.h"
#include "base/text.h"
#include "host/report/kind_source.h"
#include "host/resident/mapping_list.h"
#include "host/symbols/outside.h"
#include "host/symbols/symbols_lock.h"

#include <string.h>

enum { KEPT = 128, KEPT_BYTES = 160, FRAMES_MOST = 16 };

/* By a hash of the address; another address may replace it. Under the symbols lock. */
static struct kept {
    uintptr_t address; /* 0: empty */
    uint32_t epoch;
    char text[KEPT_BYTES];
} kept[KEPT];

/* Functions that allocate on behalf of their caller. */
static const char allocators[] =
    "std::*|*__gnu_cxx::*|* std::*|operator new*|*malloc|*calloc|*realloc|*_alloc|*Alloc|*allocate*|*::operator new*";

static const struct dp_symbols_symbol *symbol_of(dp_frame_id id, uint32_t mapping,
                                                 const struct dp_location_settings *how)
{
    bool missed;
    return how->files ? dp_symbols_find(how->files, id, dp_frame_get(id)->pc, mapping, how->symbolize)
                      : dp_symbols_cached(id, mapping, how->symbolize, &missed);
}

/* ---- variables -------------------------------------------------------------------------------------------------- */

/* Without the number that gcc gives a static variable of a function: `lock.3`. */
static size_t add_variable(const char *name, char *text, size_t n_bytes)
{
    size_t n = dp_text_format(text, n_bytes, "%s", name), n_name = n;
    while (n_name && text[n_name - 1] >= '0' && text[n_name - 1] <= '9')
        n_name--;
    if (n_name < n && n_name > 1 && text[n_name - 1] == '.')
        n = n_name - 1;
    text[n] = '\0';
    return n;
}

static size_t write_variable(dp_frame_id id, const struct dp_location_settings *how, char *text, size_t n_bytes)
{
    const struct dp_frame *frame = dp_frame_get(id);
    uint32_t index = dp_symbols_maps_of_object(frame->object);
    const struct dp_symbols_symbol *symbol = symbol_of(id, index, how);
    if (symbol) {
        size_t n = add_variable(symbol->lines[0].function->name, text, n_bytes);
        long long offset = symbol->lines[0].line;
        return offset ? n + dp_text_format(text + n, n_bytes - n, "+0x%llx", offset) : n;
    }
    struct dp_symbols_mapping m = dp_symbols_maps_get(index);
    const char *slash = m.file ? strrchr(m.file, '/') : NULL;
    return dp_text_format(text, n_bytes, "%s+0x%llx",
                          slash    ? slash + 1
                          : m.file ? m.file
                                   : "",
                          (unsigned long long)(frame->pc - m.bias));
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* The function of a record's stack that wanted the memory: the first one that allocates for itself. */
static size_t add_owner(const struct dp_record *record, const struct dp_location_settings *how, char *text,
                        size_t n_bytes)
{
    const dp_frame_id *frames = dp_table_frames(record);
    for (unsigned i = 0; i < record->depth && i < FRAMES_MOST; i++) {
        bool is_code = frames[i] >= DP_FRAME_FIRST_REAL && dp_frame_get(frames[i])->type == DP_FRAME_CODE;
        const struct dp_symbols_symbol *symbol =
            is_code ? symbol_of(frames[i], dp_symbols_maps_find(frames[i]), how) : NULL;
        for (int k = 0; symbol && k < symbol->n_lines; k++) {
            const struct dp_symbols_function *f = symbol->lines[k].function;
            if (dp_glob_matches(allocators, f->name))
                continue;
            const char *slash = f->file ? strrchr(f->file, '/') : NULL;
            size_t n = dp_text_format(text, n_bytes, " allocated by %s", f->name);
            if (f->file && symbol->lines[k].line)
                n += dp_text_format(text + n, n_bytes - n, " (%s:%lld)", slash ? slash + 1 : f->file,
                                    (long long)symbol->lines[k].line);
            return n;
        }
    }
    return 0;
}

static size_t write_block(uintptr_t address, const struct dp_location_settings *how, char *text, size_t n_bytes)
{
    dp_record_id record;
    uint64_t size_bytes;
    unsigned kind = 0;
    while (kind < DP_KIND_DELTAS &&
           !(dp_kind_source_of(kind)->block_at && dp_kind_source_of(kind)->block_at(address, &record, &size_bytes)))
        kind++;
    if (kind == DP_KIND_DELTAS)
        return 0;
    size_t n = dp_text_format(text, n_bytes, "in a block of %llu bytes", (unsigned long long)size_bytes);
    return n + add_owner(dp_table_record(kind, record), how, text + n, n_bytes - n);
}

/* ---- mappings --------------------------------------------------------------------------------------------------- */

/*
 * What /proc/self/maps says, kept for LIST_NS: a report may ask for hundreds of addresses. In the order of the
 * addresses. Under the symbols lock.
 */
#define LIST_NS INT64_C(1000000000)
struct range {
    uintptr_t start, end;
    enum dp_vma_kind kind;
    bool is_main; /* the main thread's stack */
};
static struct {
    DP_VEC(struct range) ranges;
    int64_t read_ns; /* 0: not read */
    uint32_t epoch;
} list;

static void add_range(const struct dp_vma *vma)
{
    struct range *range = dp_vec_push(&list.ranges);
    if (range)
        *range = (struct range){vma->start, vma->end, (enum dp_vma_kind)vma->kind,
                                vma->n_name >= 7 && !memcmp(vma->name, "[stack]", 7)};
}

static void read_list(void)
{
    struct dp_resident_mappings m = {.vmas = {NULL, 0, 0}};
    if (list.epoch != dp_epoch()) /* a forked child: the parent may have been changing it */
        memset(&list, 0, sizeof list);
    int64_t now_ns = dp_clock_ns();
    if (list.read_ns && now_ns - list.read_ns < LIST_NS)
        return;
    list.read_ns = now_ns;
    list.epoch = dp_epoch();
    dp_vec_clear(&list.ranges);
    if (!dp_resident_mappings_read(&m, 0))
        for (size_t i = 0; i < m.vmas.n; i++)
            add_range(&m.vmas.at[i]);
    dp_resident_mappings_fini(&m);
}

struct owner_of_stack {
    const struct range *stack;
    int32_t tid; /* 0: not found */
};

static int is_on_stack(int32_t tid, void *ctx)
{
    struct owner_of_stack *owner = ctx;
    struct dp_task_call call;
    dp_task_call_read(0, tid, &call);
    if (call.stack < owner->stack->start || call.stack >= owner->stack->end)
        return 0;
    owner->tid = tid;
    return 1;
}

static size_t write_stack(const struct range *range, char *text, size_t n_bytes)
{
    struct owner_of_stack owner = {range, 0};
    char name[DP_TASK_NAME_BYTES] = "";
    if (range->is_main)
        return dp_text_format(text, n_bytes, "on the stack of the main thread");
    dp_task_list("/proc/self/task", is_on_stack, &owner);
    if (owner.tid)
        dp_task_name(owner.tid, name);
    return dp_text_format(text, n_bytes, *name ? "on the stack of thread %s" : "on the stack of a thread%s", name);
}

static size_t write_mapping(uintptr_t address, char *text, size_t n_bytes)
{
    static const char *const words[DP_VMA_KINDS] = {
        [DP_VMA_BRK] = "in the heap",         [DP_VMA_ARENA] = "in the heap",
        [DP_VMA_BLOCKS] = "in the heap",      [DP_VMA_MAPPED] = "in anonymous memory",
        [DP_VMA_SHARED] = "in shared memory", [DP_VMA_FILE] = "in a mapped file",
    };
    size_t low = 0, high;
    read_list();
    for (high = list.ranges.n; low < high;) { /* the first range that ends behind the address */
        size_t middle = low + (high - low) / 2;
        if (list.ranges.at[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct range *range = low < list.ranges.n ? &list.ranges.at[low] : NULL;
    if (!range || address < range->start)
        return 0;
    if (range->kind == DP_VMA_STACK)
        return write_stack(range, text, n_bytes);
    return words[range->kind] ? dp_text_format(text, n_bytes, "%s", words[range->kind]) : 0;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static struct kept *kept_at(uintptr_t address)
{
    return &kept[dp_hash_mix(address) % KEPT];
}

static void keep_text(uintptr_t address, const char *text)
{
    struct kept *k = kept_at(address);
    k->address = address;
    k->epoch = dp_epoch();
    dp_text_format(k->text, sizeof k->text, "%s", text);
}

static size_t write_kept(uintptr_t address, char *text, size_t n_bytes)
{
    const struct kept *k = kept_at(address);
    return k->address == address && k->epoch == dp_epoch() ? dp_text_format(text, n_bytes, "%s", k->text) : 0;
}

size_t dp_report_data_place(uintptr_t address, dp_frame_id frame, const struct dp_location_settings *how, char *text,
                            size_t n_bytes)
{
    size_t n = 0;
    if (!address || dp_symbols_lock(!how->no_wait))
        return 0;
    if (frame && dp_frame_get(frame)->object) {
        n = write_variable(frame, how, text, n_bytes);
    } else if (!dp_symbols_outside.is_on) {
        n = write_block(address, how, text, n_bytes);
        bool is_new = n != 0;
        if (!n && !(n = write_kept(address, text, n_bytes)) && !how->no_wait)
            is_new = (n = write_mapping(address, text, n_bytes)) != 0;
        if (is_new)
            keep_text(address, text);
    }
    dp_symbols_unlock();
    return n;
}
