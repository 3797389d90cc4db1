/* SPDX-License-Identifier: MIT */
/*
 * objects/frames.h - what a frame is: an object and a lookup address, or a name that a runtime gave, or one of ours.
 *
 * Append-only, addressed by dense 32-bit ids, never by pointer. A frame of code holds its lookup address: return
 * address - 1, or an interrupted pc as it is. An object is one loaded file's mapping: {start, end, build-id, name};
 * the same range with the same build-id is the same object for ever, so a plugin opened and closed in a loop adds
 * nothing. Context: hook, unless said.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t dp_frame_id;  /* 0: none */
typedef uint32_t dp_object_id; /* 0: no file known (JIT code, anonymous memory) */

/* Frames of our own, shown by name. */
enum {
    DP_FRAME_NONE = 0,
    DP_FRAME_OVERFLOW,       /* [overflow]: the table was full */
    DP_FRAME_HAND_OVER,      /* [hand-over]: a lock was free while somebody still waited for it */
    DP_FRAME_UNKNOWN_HOLDER, /* [unknown holder] */
    DP_FRAME_TRUNCATED,      /* [truncated]: the root end of a stack cut short by `depth` */
    DP_FRAME_OTHER,          /* [other]: rows folded by max_samples */
    DP_FRAME_NO_STACK,       /* [no stack]: nothing could be captured */
    DP_FRAME_FIRST_REAL = 16,
};
const char *dp_frame_synthetic_name(dp_frame_id id); /* NULL: not synthetic */

enum dp_frame_type { DP_FRAME_CODE, DP_FRAME_NAMED, DP_FRAME_SYNTHETIC };

struct dp_frame {
    uint64_t pc; /* CODE: lookup address; NAMED: function and line (functions.h) */
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
    _Atomic uint32_t name;  /* for dp_object_name */
    const void *print_at;   /* two words that tell this file from another in its place, where they lie; NULL: none */
    uint32_t print[2];      /* and what they were: of the build-id, or of the unwind table's header */
    uint8_t build_id_bytes; /* 0: none */
    uint8_t build_id[32];
    _Atomic uint32_t ready;   /* 0: the rest is still being written, or never will be */
    _Atomic uint32_t retired; /* not 0: unmapped, or another library took its place */
};

/* `budget_bytes` of dp_mem for frames, objects and their names. -ENOMEM: none of it. Context: init. */
int dp_frames_init(size_t budget_bytes);

/* The frame of a lookup address in code; 0 when the table is full. object: of dp_object_find. */
dp_frame_id dp_frame_intern(uintptr_t lookup_pc);
dp_frame_id dp_frame_intern_in(dp_object_id object, uintptr_t lookup_pc);
dp_frame_id dp_frame_intern_named(uint64_t value);
/* The frame of a lookup address, if it is known already; else 0. Any thread. */
dp_frame_id dp_frame_find(uintptr_t lookup_pc);

/*
 * The object at an address, entered in the table when it is new; 0: no file there, or no room. pc: an address that this
 * thread will return to, or runs at, so that it cannot be unloaded meanwhile.
 */
dp_object_id dp_object_find(uintptr_t pc);

/*
 * Readers, any thread. Ids that a complete record refers to are complete and below a count read later; others below
 * the count may be zero still, or a twin that nobody refers to.
 */
uint32_t dp_frames_count(void);
const struct dp_frame *dp_frame_get(dp_frame_id id);
uint32_t dp_objects_count(void); /* an id below it that no frame refers to may not be `ready` */
const struct dp_object *dp_object_get(dp_object_id id);
const char *dp_object_name(const struct dp_object *object); /* the loader's; "" for the main program, "?" not known */

/*
 * dlclose, told by whoever hooks it: between begin and end nothing new is cached; end asks the loader for each known
 * object and retires those that are gone. Then the generation moves. Context: any thread, outside hooks of malloc;
 * begin may wait for another thread's end.
 */
void dp_objects_unload_begin(void);
void dp_objects_unload_end(void);
/* The same check without a hook, when the loader's counters moved at a report. Context: report. */
void dp_objects_recheck(void);
/* A forked child: the threads that were inside dlclose are gone. */
void dp_objects_fork_child(void);

/* Moves when an object was retired: what was cached about addresses before may no longer hold. Its low 16 bits are not
 * 0. */
uint32_t dp_objects_generation(void);
bool dp_objects_unloading(void); /* ask this first, then the generation */
