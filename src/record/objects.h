/* SPDX-License-Identifier: MIT */
/* record/objects.h - the object table's own door for frames.c; what the rest may know of it stands in frames.h. */
#pragma once

#include "record/frames.h"

int dp_objects_init(size_t budget_bytes);

/*
 * Fills what the file's mapped headers say about the object at [start, end): build-id and unwind table. Nothing outside
 * the readable segments of that range is read, whatever the headers claim. False: there is no ELF header at start.
 */
bool dp_object_read(struct dp_object *object);

/* What there is to know about the object at pc, from the loader and its headers, without a place in the table. */
bool dp_object_look(uintptr_t pc, struct dp_object *object);
