/* SPDX-License-Identifier: MIT */
/* objects/objects.h - the object table's own door for frames.c; what the rest may know of it stands in frames.h. */
#pragma once

#include "objects/frames.h"
#include "objects/loader.h"

int dp_objects_init(size_t budget_bytes);

/*
 * Fills what the file's mapped headers say about the object at [start, end): build-id and unwind table. Nothing outside
 * the readable segments of that range is read, whatever the headers claim. False: there is no ELF header at start.
 */
bool dp_object_read(struct dp_object *object);

/* What there is to know about the object at pc, from the loader and its headers, without a place in the table. */
bool dp_object_look(uintptr_t pc, struct dp_object *object);

/* Enters what the loader said, or finds it there; 0: no room. Context: hook, or wherever the loader may be asked. */
dp_object_id dp_object_enter(const struct dp_loaded *found);

/* The object in the table that begins at start and is still there; NULL: none. */
const struct dp_object *dp_object_at(uintptr_t start);

/* True: it was not retired, and now it is. */
bool dp_object_retire_if_gone(dp_object_id id);

/* An unload is under way, or one was when this process was forked: what is known of a range may no longer hold. */
bool dp_objects_changing(void);
