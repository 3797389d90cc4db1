/* SPDX-License-Identifier: MIT */
/*
 * host/objects/frames.h - the table of stack frames: each distinct frame gets one 32-bit id, for as long as the process
 * lives.
 *
 * A frame is one of three things: a lookup address in an object, a name that a runtime gave, or a synthetic name of the
 * profiler, such as [truncated]. Addresses of data in an object have ids too: these are in no stack.
 *
 * The table only grows. Ids are dense, and callers keep ids, never pointers. The lookup address of a frame is its
 * return address - 1, or, where it was interrupted, its exact pc. An object is one loaded file's mapping: {start, end,
 * build-id, name}; the same range with the same build-id keeps its id for ever, so a plugin that is opened and closed
 * in a loop adds nothing. Context: hook, unless stated otherwise.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t dp_frame_id;  /* 0: none */
typedef uint32_t dp_object_id; /* 0: no file known (JIT code, anonymous memory) */

/* Synthetic frames, shown by name. */
enum {
    DP_FRAME_NONE = 0,
    DP_FRAME_OVERFLOW,       /* [overflow]: the table was full */
    DP_FRAME_HAND_OVER,      /* [hand-over]: a lock was free while a thread still waited for it */
    DP_FRAME_UNKNOWN_HOLDER, /* [unknown holder] */
    DP_FRAME_TRUNCATED,      /* [truncated]: the root end of a stack cut short by `depth` */
    DP_FRAME_OTHER,          /* [other]: rows folded by max_samples */
    DP_FRAME_NO_STACK,       /* [no stack]: nothing could be captured */
    DP_FRAME_BETWEEN,        /* [between samples]: CPU time after a thread's last sample */
    DP_FRAME_MASKED,         /* [masked]: CPU time of a thread that blocked the sampling signal */
    DP_FRAME_NOT_WALKED,     /* [not walked]: CPU time without a stack; a counter says why */
    DP_FRAME_PROFILER,       /* [deltaprof]: CPU time of the profiler's own threads */
    DP_FRAME_HELD_BY,        /* [held by]: between a stack that waited and the stack that held the lock */
    DP_FRAME_UNKNOWN_WAITER, /* [unknown waiter] */
    DP_FRAME_STATE_UNKNOWN,  /* [state unknown]: time off the processor of which the place is not known */
    DP_FRAME_FIRST_REAL = 16,
};
const char *dp_frame_synthetic_name(dp_frame_id id); /* NULL: not synthetic */

enum dp_frame_type { DP_FRAME_CODE, DP_FRAME_NAMED, DP_FRAME_SYNTHETIC, DP_FRAME_DATA };

struct dp_frame {
    uint64_t pc; /* CODE: lookup address; DATA: address; NAMED: function and line (functions.h) */
    dp_object_id object;
    uint32_t type;
};

struct dp_object {
    uintptr_t start, end;         /* the mapped range, as the loader knows it */
    uintptr_t bias;               /* load bias: address in memory - address in the file's program headers */
    const void *eh_frame_hdr;     /* valid while the object is loaded; NULL: none */
    uintptr_t cfi_start, cfi_end; /* the readable segment that .eh_frame lies in; equal: no unwind table */
    const int32_t *fde_table;     /* sorted {pc, fde} pairs relative to eh_frame_hdr, inside that file's mapping */
    uint32_t n_fdes;
    _Atomic uint32_t name; /* for dp_object_name */
    /* where two words lie that differ in another file at the same place; NULL: none */
    const void *fingerprint_at;
    uint32_t fingerprint[2]; /* their values: part of the build-id, or of the unwind table's header */
    uint8_t build_id_bytes;  /* 0: none */
    uint8_t build_id[32];
    _Atomic uint32_t ready;   /* 0: the other fields are not complete, and may never be */
    _Atomic uint32_t retired; /* not 0: unmapped, or another library took its place */
};

/* Reserves `budget_bytes` of dp_mem for frames, objects and their names. -ENOMEM: nothing is usable. Context: init. */
int dp_frames_init(size_t budget_bytes);

/*
 * Return the id of a frame, a new one if the frame is not known; 0 when the table is full. object: from dp_object_find.
 */
dp_frame_id dp_frame_intern(uintptr_t lookup_pc);
dp_frame_id dp_frame_intern_in(dp_object_id object, uintptr_t lookup_pc);
dp_frame_id dp_frame_intern_named(uint64_t value);
/* Of an address in use, which no thread unmaps meanwhile. 0: it lies in no object, or the table is full. */
dp_frame_id dp_frame_intern_data(uintptr_t address);
/* The id of a lookup address's frame if the frame is known already, else 0. Any thread. */
dp_frame_id dp_frame_find(uintptr_t lookup_pc);

/*
 * The id of the object at an address; a new object is entered in the table. 0: no file lies there, or the table is
 * full. pc: an address that this thread will return to, or runs at, so that it cannot be unloaded meanwhile.
 */
dp_object_id dp_object_find(uintptr_t pc);

/*
 * For readers, any thread. An id that a complete record refers to is complete, and below a count that is read later.
 * Other ids below the count may still be zero, or be unused duplicates.
 */
uint32_t dp_frames_count(void);
uint32_t dp_frames_capacity(void); /* no id reaches it */
const struct dp_frame *dp_frame_get(dp_frame_id id);
uint32_t dp_objects_count(void); /* ids below it that no frame refers to may not be `ready` */
const struct dp_object *dp_object_get(dp_object_id id);
/* as the loader has it; "" for the main program, "?" if not known */
const char *dp_object_name(const struct dp_object *object);

/*
 * Take entries whose arrays were copied from another process: first functions, then objects with n_names bytes of
 * names, then frames. False: they are not valid. Context: init, one thread.
 */
bool dp_frames_adopt(uint32_t n);
bool dp_objects_adopt(uint32_t n, uint32_t n_names);
/* The object of the main program among them; 0: not known. */
dp_object_id dp_objects_main(void);

/*
 * The hook of dlclose calls begin before the unload and end after it. In between nothing new is cached. end asks the
 * loader about each known object, retires those that are gone, and then moves the generation. Context: any thread, but
 * not within hooks of malloc; begin may wait for another thread's end.
 */
void dp_objects_unload_begin(void);
void dp_objects_unload_end(void);
/* The same check without a dlclose hook: for a report that finds the loader's counters moved. Context: report. */
void dp_objects_recheck(void);
/* Facts about addresses that were cached before do not hold any more. Context: any. */
void dp_objects_new_generation(void);
/*
 * Between the two no hooked dlclose begins, and nothing new is cached by others: for a thread that reads code which
 * another thread stands in. False: an unload is under way. For microseconds. Context: not a hook.
 */
bool dp_objects_forbid_unload(void);
void dp_objects_allow_unload(void);
/* A forked child: threads that were inside dlclose do not exist in it. */
void dp_objects_fork_child(void);

/* Of objects_unload.c, which explains it; here so that each walk reads it without a call. */
extern struct dp_objects_state {
    _Atomic uint32_t generation, unload;
} dp_objects_state DP_INTERNAL;

/*
 * Changes when an object was retired: facts about addresses that were cached before may no longer hold. The low 16 bits
 * are never 0.
 */
static inline uint32_t dp_objects_generation(void)
{
    return dp_load_acquire(&dp_objects_state.generation); /* [RETIRE] */
}

/* Callers read this first, then the generation. */
static inline bool dp_objects_unloading(void)
{
    return dp_load_acquire(&dp_objects_state.unload) != 0; /* [UNLOAD] */
}
