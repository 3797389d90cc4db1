/* SPDX-License-Identifier: MIT */
/*
 * host/locks/futex_class.c - the verdicts of frames, and the table of classes.
 *
 * Verdicts are bytes by frame id, relaxed: each is a fact by itself. A verdict goes from 0 to its value once; only the
 * mark HOLDS is added, at any time.
 *
 * Classes are open addressing: a class is an index in the table + FIRST_OTHER, and the word there says for what it
 * stands: an odd number for a block record, an even one for a frame. Words are set once. [CLASS]: a report that finds
 * the number of a record may read the record, because its thread had interned it before it published the number.
 */
#include "host/locks/futex_class.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/mem.h"
#include "host/locks/contended.h"
#include "host/shared/shared.h"
#include "host/table/labels.h"

#include <deltaprof/locks.h>

#include <errno.h>

enum { N_CLASSES = 4096, FIRST_OTHER = 16, PROBES = 64 };
_Static_assert(N_CLASSES - 1 == DP_FUTEX_CLASS_MASK, "classes fit in a slot's key");
_Static_assert((int)DP_LOCK_KINDS <= (int)FIRST_OTHER, "kinds are the first classes");

static DP_LARGE _Atomic uint32_t classes[N_CLASSES - FIRST_OTHER];
static _Atomic uint8_t *verdicts;
static uint32_t n_verdicts;

/* A class as other processes read it. */
struct published {
    uint32_t index, number;
};
static _Atomic uint32_t n_published;

int dp_futex_class_init(void)
{
    if (verdicts)
        return 0;
    n_verdicts = dp_frames_capacity();
    verdicts = dp_mem_table(n_verdicts);
    return verdicts ? 0 : -ENOMEM;
}

unsigned dp_futex_verdict(dp_frame_id frame)
{
    return verdicts && frame < n_verdicts ? dp_load_relaxed(&verdicts[frame]) : DP_LOCK_FUTEX;
}

void dp_futex_set_verdict(dp_frame_id frame, unsigned verdict)
{
    if (verdicts && frame < n_verdicts)
        dp_or_relaxed(&verdicts[frame], (uint8_t)verdict);
}

/* The kind of a wait with these frames. *by: the frame that decided it; of an unknown kind, the first one whose library
 * is not known. */
static enum dp_lock_kind decide(const dp_frame_id *frames, unsigned depth, dp_frame_id *by)
{
    unsigned weak = DP_LOCK_FUTEX;
    *by = 0;
    for (unsigned i = 0; i < depth && i < DP_FUTEX_FRAMES; i++) {
        unsigned verdict = dp_futex_verdict(frames[i]), kind = verdict & DP_FUTEX_KIND_MASK;
        if (!*by && (kind == DP_LOCK_NONE || kind == DP_LOCK_FUTEX || kind == DP_LOCK_UNNAMED))
            *by = frames[i];
        if (kind == DP_LOCK_NONE)
            return DP_LOCK_NONE;
        if (kind == DP_LOCK_FUTEX)
            break;
        if (verdict & DP_FUTEX_WEAK)
            weak = kind;
        else if (kind < DP_LOCK_KINDS)
            return kind;
    }
    if (!*by && depth)
        *by = frames[0];
    return weak;
}

static enum dp_lock_kind decide_record(dp_record_id id, dp_frame_id *by)
{
    const struct dp_record *record = dp_table_record(DP_KIND_BLOCK, id);
    return decide(dp_table_frames(record), record->depth, by);
}

static bool may_hold(enum dp_lock_kind kind)
{
    return kind == DP_LOCK_NONE || kind == DP_LOCK_FUTEX || dp_lock_kind_has_holder(kind);
}

/* Copies a class to where other processes can read it. */
static void publish(uint32_t index, uint32_t number)
{
    struct dp_shared_array *array = dp_shared_array(DP_ARRAY_CLASSES);
    uint32_t at = array->at ? dp_add_relaxed(&n_published, 1) : N_CLASSES;
    if (at < N_CLASSES && dp_shared_commit(array, at + 1))
        ((struct published *)(void *)array->at)[at] = (struct published){index, number};
}

int dp_futex_class_share(void)
{
    if (dp_shared_array_init(DP_ARRAY_CLASSES, sizeof(struct published), 0, N_CLASSES, 1))
        return -ENOMEM;
    dp_shared_array(DP_ARRAY_CLASSES)->used = &n_published;
    return 0;
}

bool dp_futex_class_adopt(uint32_t n)
{
    const struct published *from = dp_shared_at(DP_ARRAY_CLASSES);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = from[i].number, most = number & 1 ? dp_table_count(DP_KIND_BLOCK) : dp_frames_count();
        if (from[i].index >= N_CLASSES - FIRST_OTHER)
            return false;
        if (number >> 1 < most)
            dp_store_relaxed(&classes[from[i].index], number);
    }
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        for (dp_record_id id = 0; id < dp_table_count(kind); id++)
            if (dp_labels_futex_class(dp_table_record(kind, id)->labels) >= N_CLASSES)
                return false;
    return true;
}

/* The class that stands for this number; 0: there is no room near its index. */
static unsigned find_or_make(uint32_t number)
{
    uint32_t at = (uint32_t)dp_hash_mix(number);
    for (unsigned i = 0; i < PROBES; i++, at++) {
        unsigned index = at % (N_CLASSES - FIRST_OTHER);
        uint32_t seen = dp_load_relaxed(&classes[index]);
        if (!seen && dp_cas_publish(&classes[index], &seen, number)) { /* [CLASS] */
            publish(index, number);
            return index + FIRST_OTHER;
        }
        if (seen == number)
            return index + FIRST_OTHER;
    }
    return 0;
}

bool dp_futex_class_needs_head(dp_record_id record)
{
    dp_frame_id by;
    return dp_table_record(DP_KIND_BLOCK, record)->depth > DP_FUTEX_FRAMES &&
           decide_record(record, &by) == DP_LOCK_NONE;
}

unsigned dp_futex_class_of(dp_record_id record, bool *hold)
{
    dp_frame_id by;
    enum dp_lock_kind kind = decide_record(record, &by);
    *hold = may_hold(kind);
    if (kind != DP_LOCK_NONE && kind != DP_LOCK_FUTEX)
        return kind;
    return find_or_make(kind == DP_LOCK_FUTEX ? by << 1 : record << 1 | 1);
}

static void mark(dp_frame_id frame)
{
    if (!(dp_futex_verdict(frame) & DP_FUTEX_HOLDS))
        dp_futex_set_verdict(frame, DP_FUTEX_HOLDS);
}

/* While the kind is not decided, each frame that may turn out to decide it is marked. */
void dp_futex_class_note_holder(unsigned class)
{
    uint32_t number = class >= FIRST_OTHER ? dp_load_acquire(&classes[class - FIRST_OTHER]) : 0; /* [CLASS] */
    if (number & 1) {
        const struct dp_record *record = dp_table_record(DP_KIND_BLOCK, number >> 1);
        const dp_frame_id *frames = dp_table_frames(record);
        for (unsigned i = 0; i < record->depth && i < DP_FUTEX_FRAMES; i++)
            mark(frames[i]);
    } else if (number) {
        mark(number >> 1);
    }
}

static bool is_lock(enum dp_lock_kind kind, dp_frame_id by)
{
    if (kind == DP_LOCK_NONE || kind == DP_LOCK_FUTEX)
        return dp_futex_verdict(by) & DP_FUTEX_HOLDS;
    return dp_lock_kind_has_holder(kind);
}

/* The kind of a class. *holds: it is a lock, so its waits have holders. */
static enum dp_lock_kind kind_of_class(unsigned class, bool *holds)
{
    enum dp_lock_kind kind = class;
    dp_frame_id by = 0;
    if (class >= FIRST_OTHER) {
        uint32_t number = dp_load_acquire(&classes[class - FIRST_OTHER]); /* [CLASS] */
        kind = DP_LOCK_FUTEX;
        by = number >> 1;
        if (number & 1)
            kind = decide_record(number >> 1, &by);
    }
    *holds = class && is_lock(kind, by);
    return kind;
}

unsigned dp_futex_lock_of(unsigned kind, const struct dp_record *record, bool *shown)
{
    dp_frame_id by;
    *shown = true;
    if (!dp_labels_is_futex(record->labels))
        return dp_labels_lock(record->labels);
    enum dp_lock_kind lock = kind == DP_KIND_BLOCK ? decide(dp_table_frames(record), record->depth, &by)
                                                   : kind_of_class(dp_labels_futex_class(record->labels), shown);
    return lock ? lock : DP_LOCK_FUTEX;
}

dp_record_id dp_futex_next_undecided(unsigned *class)
{
    unsigned at = *class < FIRST_OTHER ? 0 : *class - FIRST_OTHER + 1;
    for (; at < N_CLASSES - FIRST_OTHER; at++) {
        uint32_t number = dp_load_acquire(&classes[at]); /* [CLASS] */
        dp_frame_id by;
        if (!(number & 1) || decide_record(number >> 1, &by) != DP_LOCK_NONE)
            continue;
        *class = at + FIRST_OTHER;
        return number >> 1;
    }
    return 0;
}
