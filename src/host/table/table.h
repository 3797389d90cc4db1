/* SPDX-License-Identifier: MIT */
/*
 * host/table/table.h - tables of records: counters that only grow, by (kind, heap, labels, stack).
 *
 * One table for each of DP_KIND_TABLES kinds, with dense record ids from 0; 0 is its [overflow] row, which always
 * exists. Fixed capacity, append-only, lock-free. Counters are accessed only through add and read.
 */
#pragma once

#include "profile/kinds.h"
#include "host/unwind/stack.h"

typedef uint32_t dp_record_id;

/* Heap: alloc and free. Locks: the first pair is {contentions, delay_ns}; of the second one they use the word below. */
struct dp_counts {
    int64_t n, v;
    int64_t free_n, free_v;
};

struct dp_record {
    uint64_t hash;
    uint32_t stack; /* offset for dp_table_frames */
    uint16_t depth;
    uint8_t heap;
    uint8_t cut;
    uint32_t labels; /* id of a label set; 0 none */
    uint32_t spare;
};

/*
 * budget_bytes of dp_mem for the records and stacks of all kinds; later up to spare_bytes more, for stacks and heap
 * records, as long as dp_mem has them to spare. -ENOMEM: nothing is mapped. Context: init.
 */
int dp_table_init(size_t budget_bytes, size_t spare_bytes);

/* The record of this key; made if it is new. 0 ([overflow], counted) if there is no room. Context: hook. */
dp_record_id dp_table_look_up(unsigned kind, uint8_t heap, uint32_t labels, const struct dp_stack *stack, uint64_t key);
static inline dp_record_id dp_table_intern(unsigned kind, uint8_t heap, uint32_t labels, const struct dp_stack *stack)
{
    const struct dp_stack_known *known = stack->known;
    uint64_t key = (uint64_t)labels << 32 | (uint32_t)heap << 8 | kind;
    return known && known->record && known->key == key ? known->record
                                                       : dp_table_look_up(kind, heap, labels, stack, key);
}

/*
 * The same for a kind whose stacks may be shortened: a new record is made only while the memory of records and that of
 * stacks are used to less than sixteenths/16. 0: there is no such record, which is not counted.
 */
dp_record_id dp_table_intern_within(unsigned kind, uint32_t labels, const struct dp_stack *stack, unsigned sixteenths);

/* Adds to a record's counters. A free is added with release, after its alloc. Context: hook. */
void dp_table_add(unsigned kind, dp_record_id id, int64_t n, int64_t v);
void dp_table_add_free(unsigned kind, dp_record_id id, int64_t n, int64_t v);

/*
 * A word of each record of a kind without frees, for the room of that kind: 0 at first, always at least 0 and at most
 * 2^60. Another process can read it, too. Context: any.
 */
_Atomic int64_t *dp_table_word(unsigned kind, dp_record_id id);

/*
 * For readers, any thread. read loads free before alloc, so alloc - free >= 0. The record of an id below the count may
 * be read only if its counters are not all 0: then it is complete. (An id may belong to a record that is being filled,
 * or that lost a race for its stack: its counters are 0, perhaps for ever.)
 */
uint32_t dp_table_count(unsigned kind);
uint32_t dp_table_most(unsigned kind); /* all ids are below, for ever */
bool dp_table_is_empty(unsigned kind); /* nothing was ever recorded */
void dp_table_read(unsigned kind, dp_record_id id, struct dp_counts *counts);
const struct dp_record *dp_table_record(unsigned kind, dp_record_id id);
const dp_frame_id *dp_table_frames(const struct dp_record *record);

/*
 * The zero of a forked child: n and v of each record at set_base; 0 in the first process. Only record.c calls set_base;
 * readers call dp_record_fork_base.
 */
struct dp_table_base {
    int64_t n, v;
};
void dp_table_set_base(void);
void dp_table_base(unsigned kind, dp_record_id id, struct dp_table_base *base);

/* What is particular in the records of a kind; NULL: nothing. */
struct dp_table_adoption {
    bool (*is_named)(dp_record_id id);                         /* is in use although its counters are 0 */
    bool (*has_valid_ids)(const dp_frame_id *ids, uint32_t n); /* whether what is there instead of frames exists */
};

/*
 * Takes the first n records of a kind, whose arrays were copied from another process; kinds in their order. False: what
 * they refer to is not there.
 */
bool dp_table_adopt(unsigned kind, uint32_t n, uint32_t n_stacks, uint32_t n_frames, const struct dp_table_adoption *);

/* In the parent, before a fork: keeps the counters of the heap for the file of the child. */
void dp_table_fork_prepare(void);
/* As dp_shared_file_make. */
bool dp_table_make_file(uint32_t epoch);

/* In a forked child: resets the work of threads that do not exist in it. Only stores. */
void dp_table_fork_child(void);
