/* SPDX-License-Identifier: MIT */
/*
 * host/report/kind_source.h - the functions by which reports read the records of a kind of profile. The data of a kind
 * are in profile/kinds.h. The room of a kind (heap, locks) defines its dp_NAME_source, and kind_sources.c has the array
 * of them: reports call these rooms through it only. A function that is NULL does nothing, unless stated otherwise.
 */
#pragma once

#include "config/config.h"
#include "host/report/delta.h"
#include "host/report/location.h"

struct dp_consumer;
struct dp_emission;

/*
 * Memory of a consumer for its kind: what was delivered beside the values in the table (`delivered`), and what the
 * present or pending write adds to its rows (`more`). Zero is empty. Only the kind's functions know its content.
 */
struct dp_kind_state {
    _Alignas(void *) unsigned char bytes[8 * sizeof(void *)];
};

struct dp_kind_source {
    const struct dp_delta_rules *rules;      /* of the records in the table; NULL: the kind has none */
    const struct dp_delta_rules *peak_rules; /* the same, for what was in use at the peak; NULL: no peak is kept */
    /* Before and after a scan by peak_rules. False: no peak is kept now. *wall_ns: the peak's time of day. */
    bool (*peak_begin)(int64_t *wall_ns);
    void (*peak_end)(void);
    /* For a kind that may be off: records it until window_end, for a request of the next N seconds. Nests. */
    void (*window_begin)(void);
    void (*window_end)(void);
    bool needs_agent;        /* in a window the background thread records it */
    bool (*is_empty)(void);  /* nothing was ever recorded; NULL: no record in the table has a value */
    bool (*is_stuck)(void);  /* while nothing was recorded: whether a profile has to tell that no thread can wake */
    int64_t (*period)(void); /* NULL: 1 */
    struct dp_table_adoption adoption; /* what records copied from another process must be checked for */

    /* Before the scan of a write: sets the fields of the profile that are not rows. */
    void (*prepare)(const struct dp_consumer *, unsigned flags, struct dp_emission *);
    /* Appends the rows that changed since base. files: as of dp_lock_learn. NULL: as dp_delta_scan. 0 or -ENOMEM. */
    int (*scan)(const struct dp_delta_rules *, unsigned locks, enum dp_symbolize, struct dp_symbols_files *files,
                struct dp_baseline *base, struct dp_rows *rows);
    /*
     * After the scan: fills `more`. If memory is short, it stays empty and comes with a later profile. flags: enum
     * dp_write_flags.
     */
    void (*add_more)(struct dp_consumer *, unsigned flags, struct dp_emission *);
    /* As scan and add_more, to make the present state the baseline. 0 or a negative errno. */
    int (*skip)(struct dp_consumer *);
    void (*commit)(struct dp_kind_state *delivered, const struct dp_kind_state *more);
    void (*restart)(struct dp_kind_state *delivered); /* in a forked child: begins anew */
    void (*free_more)(struct dp_kind_state *more);    /* leaves it empty */
    void (*free_delivered)(struct dp_kind_state *delivered);

    /* Fills values[DP_VALUES_MAX ..] of a row. *next: 0 before the first row; the rows come by record. */
    void (*add_values)(const struct dp_kind_state *more, size_t *next, const struct dp_row *row, int64_t *values);
    /* The age of a row that has one, as text. */
    const char *(*age)(const struct dp_row *);
    /* The label `state` of a record; NULL: it has none. */
    const char *(*state)(const struct dp_record *);
    bool (*is_idle)(const struct dp_record *); /* the thread waits for work: the label `idle`; NULL: not known */
    /* Writes where the lock of a record is, for people; returns its length, 0: not known, or the kind has no locks. */
    size_t (*lock_at)(dp_record_id, const struct dp_location_settings *, char *text, size_t n_bytes);
    /*
     * Finds the block in use, of those that were sampled, that holds an address: the record of its allocation, and its
     * size. Context: outside hooks; async-signal-safe.
     */
    bool (*block_at)(uintptr_t address, dp_record_id *record, uint64_t *n_bytes);
    /* Writes one line of text that sums up the rows. */
    void (*summary)(unsigned locks, const struct dp_rows *rows, char *text, size_t n_bytes);

    /*
     * Chooses the leaf that is shown: leaves out the *n_inside leafmost frames, and returns a function to show before
     * the others, 0: none. NULL: all frames are shown.
     */
    dp_frame_id (*leaf)(const struct dp_record *, unsigned *n_inside);
    /* Leaves are functions that a signal interrupted. The part of a row is 1 + the offset of its pc from the leaf. */
    bool is_interrupted;
    /*
     * The frames of a record that refers to records of other kinds: fills frames (DP_EMIT_STACK_MAX), leaf first;
     * returns their number. *n_reversed: number of leafmost frames that are a stack from its root to its leaf. NULL:
     * records have frames of their own.
     */
    size_t (*tower)(const struct dp_record *, dp_frame_id *frames, size_t *n_reversed);

    /* The text form: the text before the rows, a row without its stack, and the text after the rows. NULL: none. */
    size_t (*text_header)(const struct dp_rows *rows, char *text, size_t n_bytes);
    size_t (*text_row)(const int64_t *values, char *text, size_t n_bytes);
    const char *text_end;
};

/* kind: below DP_KIND_DELTAS. */
const struct dp_kind_source *dp_kind_source_of(unsigned kind);

/* Calls the scan of the kind; arguments and result as there. */
int dp_kind_source_scan(unsigned kind, unsigned locks, enum dp_symbolize, struct dp_symbols_files *files,
                        struct dp_baseline *base, struct dp_rows *rows);
/* The same for the memory in use at the peak; *wall_ns: the peak's time of day. 1: no peak is kept, no row is added. */
int dp_kind_source_scan_peak(unsigned kind, struct dp_baseline *base, struct dp_rows *rows, int64_t *wall_ns);
bool dp_kind_source_is_empty(unsigned kind);
bool dp_kind_source_is_stuck(unsigned kind);

/* The lock kind of a record; 0: the kind has none. *shown: whether the profile shows the record. */
unsigned dp_kind_source_lock_of(unsigned kind, const struct dp_record *, bool *shown);
