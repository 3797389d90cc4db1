/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/firefox_tables.h - the tables of one thread of a Firefox profile: strings, functions, frames, and stacks
 * (a frame and the stack that called it). Rows are added while the thread's events are written; then the tables follow.
 */
#pragma once

#include "tool/formats/trace_text.h"
#include "tool/formats/timeline.h"

#include "pprof/strings.h"

enum { DP_TIMELINE_NO_STACK = -1 };

struct dp_formats_timeline_tables {
    struct dp_formats_timeline *timeline;
    struct dp_strings strings, functions, frames, stacks, resources; /* resources: string numbers */
    DP_VEC(int32_t) stack_of;                                        /* by row of the model; 0: not yet, else + 1 */
    int err;
};

/* 0, or -ENOMEM, and then there is nothing to free. */
int dp_formats_timeline_tables_init(struct dp_formats_timeline_tables *, struct dp_formats_timeline *);
void dp_formats_timeline_tables_fini(struct dp_formats_timeline_tables *);
/* Empties the tables for a thread. Call it before the first row of each. */
void dp_formats_timeline_tables_begin(struct dp_formats_timeline_tables *);

/* The number of a string. After an error it is 0, and err is set. */
uint32_t dp_formats_timeline_tables_add_string(struct dp_formats_timeline_tables *, const char *text);
/* The stack of a row of the model; DP_TIMELINE_NO_STACK: it has no frame. */
int32_t dp_formats_timeline_tables_stack(struct dp_formats_timeline_tables *, uint32_t row);
/* Writes the tables as members of the thread's object. */
void dp_formats_timeline_tables_say(struct dp_formats_timeline_text *, struct dp_formats_timeline_tables *);
