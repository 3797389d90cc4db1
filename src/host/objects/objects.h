/* SPDX-License-Identifier: MIT */
/*
 * host/objects/objects.h - functions of the object table for use inside src/host/objects; frames.h has the ones for
 * other rooms.
 */
#pragma once

#include "host/objects/frames.h"
#include "host/objects/loader.h"

int dp_objects_init(size_t budget_bytes);

/*
 * Reads the build-id and the unwind table of the object at [start, end) from its headers in memory (objects_elf.c).
 * The headers may be wrong: reads only addresses in the object's readable segments. False: no valid headers were found.
 */
bool dp_object_read(struct dp_object *object);

/* Fills *object for the object at pc, from the loader and the file's headers, without entering it in the table. */
bool dp_object_look(uintptr_t pc, struct dp_object *object);

/*
 * Returns the id of a file that the loader named; enters it in the table if it is new. 0: the table is full. Context:
 * hook, or any place where the loader may be asked.
 */
dp_object_id dp_object_enter(const struct dp_loaded *found);

/* The object in the table that begins at start and is not retired; NULL: none. */
const struct dp_object *dp_object_at(uintptr_t start);

/* Retires the object if its file is gone. True: this call retired it. */
bool dp_object_retire_if_gone(dp_object_id id);

/* Whether an unload is under way, or was at the fork of this process: known ranges may then hold something else. */
bool dp_objects_changing(void);
