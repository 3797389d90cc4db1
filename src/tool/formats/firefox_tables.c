/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/firefox_tables.c - stores equal rows once: each table is a set of the rows' bytes. A frame has the
 * address of its code relative to its library.
 */
#include "tool/formats/firefox_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NONE = DP_TIMELINE_NO_STACK };

struct function {
    uint32_t name, file; /* strings */
    int32_t library;     /* resource; NONE */
};

struct frame {
    uint64_t address;
    int64_t line;
    uint32_t function, is_inlined;
};

struct stack {
    int32_t prefix; /* NONE: the root */
    uint32_t frame;
};

static uint32_t add(struct dp_formats_timeline_tables *t, struct dp_strings *set, const void *bytes, size_t n_bytes)
{
    uint32_t number = dp_strings_add(set, bytes, n_bytes);
    if (number != DP_STRINGS_NONE)
        return number;
    t->err = -ENOMEM;
    return 0;
}

uint32_t dp_formats_timeline_tables_add_string(struct dp_formats_timeline_tables *t, const char *text)
{
    return add(t, &t->strings, text, strlen(text));
}

/* The number of a row in its table, from 0 on; number 0 of a set is "". */
static uint32_t add_row(struct dp_formats_timeline_tables *t, struct dp_strings *set, const void *row, size_t n_bytes)
{
    uint32_t number = add(t, set, row, n_bytes);
    return number ? number - 1 : 0;
}

static size_t n_rows(const struct dp_strings *set)
{
    return dp_strings_count(set) ? dp_strings_count(set) - 1 : 0;
}

/* ---- stacks ---- */

static int32_t push_frame(struct dp_formats_timeline_tables *t, const struct dp_query_naming_frame *f, uint64_t address,
                          bool is_inlined, int32_t prefix)
{
    const struct dp_query_naming_frames *frames = &t->timeline->frames;
    struct function function;
    struct frame frame;
    struct stack stack;
    memset(&function, 0, sizeof function); /* padding is compared too */
    memset(&frame, 0, sizeof frame);
    memset(&stack, 0, sizeof stack);
    function.name = dp_formats_timeline_tables_add_string(t, dp_query_naming_frames_text(frames, f->name));
    function.file =
        f->file ? dp_formats_timeline_tables_add_string(t, dp_query_naming_frames_text(frames, f->file)) : 0;
    function.library = NONE;
    if (f->library) {
        uint32_t name = dp_formats_timeline_tables_add_string(t, dp_query_naming_frames_text(frames, f->library));
        function.library = (int32_t)add_row(t, &t->resources, &name, sizeof name);
    }
    frame.function = add_row(t, &t->functions, &function, sizeof function);
    frame.address = address;
    frame.line = f->line;
    frame.is_inlined = is_inlined;
    stack.prefix = prefix;
    stack.frame = add_row(t, &t->frames, &frame, sizeof frame);
    return (int32_t)add_row(t, &t->stacks, &stack, sizeof stack);
}

int32_t dp_formats_timeline_tables_stack(struct dp_formats_timeline_tables *t, uint32_t row)
{
    const struct dp_model *m = &t->timeline->model;
    int32_t stack = NONE;
    if (t->stack_of.at[row])
        return t->stack_of.at[row] - 1;
    for (uint32_t i = dp_model_depth(m, row); i-- > 0 && !t->err;) {
        uint32_t location = dp_model_stack(m, row)[i], first;
        const struct dp_model_location *l = &m->locations.at[location];
        int n = dp_query_naming_frames_of(&t->timeline->frames, location, &first);
        if (n < 0)
            t->err = n;
        while (n-- > 0 && !t->err)
            stack = push_frame(t, &t->timeline->frames.at.at[first + (uint32_t)n], l->place, n > 0, stack);
    }
    if (stack != NONE)
        t->stack_of.at[row] = stack + 1;
    return stack;
}

/* ---- tables ---- */

#define COLUMN(out, name, set, type, format, value)                                           \
    do {                                                                                      \
        dp_formats_timeline_say_column(out, name);                                            \
        for (uint32_t i_ = 0; i_ < n_rows(set); i_++) {                                       \
            type row;                                                                         \
            memcpy(&row, dp_strings_at(set, i_ + 1), sizeof row); /* it may not be aligned */ \
            dp_formats_timeline_say_comma(out, i_);                                           \
            dp_formats_timeline_say(out, format, value);                                      \
        }                                                                                     \
        dp_formats_timeline_say(out, "],");                                                   \
    } while (0)

/* A number that may be missing. */
static const char *or_null(char text[24], int64_t value, bool is_missing)
{
    snprintf(text, 24, "%" PRId64, value);
    return is_missing ? "null" : text;
}

void dp_formats_timeline_tables_say(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t)
{
    char text[24];
    size_t n_stacks = n_rows(&t->stacks), n_frames = n_rows(&t->frames);
    size_t n_functions = n_rows(&t->functions), n_resources = n_rows(&t->resources);
    dp_formats_timeline_say(out, "\"stackTable\":{");
    COLUMN(out, "frame", &t->stacks, struct stack, "%" PRIu32, row.frame);
    COLUMN(out, "prefix", &t->stacks, struct stack, "%s", or_null(text, row.prefix, row.prefix == NONE));
    dp_formats_timeline_say_same(out, "category", n_stacks, "0");
    dp_formats_timeline_say_same(out, "subcategory", n_stacks, "0");
    dp_formats_timeline_say(out, "\"length\":%zu},\n\"frameTable\":{", n_stacks);
    COLUMN(out, "address", &t->frames, struct frame, "%" PRIu64, row.address);
    COLUMN(out, "inlineDepth", &t->frames, struct frame, "%" PRIu32, row.is_inlined);
    COLUMN(out, "func", &t->frames, struct frame, "%" PRIu32, row.function);
    COLUMN(out, "line", &t->frames, struct frame, "%s", or_null(text, row.line, row.line <= 0));
    dp_formats_timeline_say_same(out, "category", n_frames, "0");
    dp_formats_timeline_say_same(out, "subcategory", n_frames, "0");
    dp_formats_timeline_say_same(out, "nativeSymbol", n_frames, "null");
    dp_formats_timeline_say_same(out, "innerWindowID", n_frames, "0");
    dp_formats_timeline_say_same(out, "implementation", n_frames, "null");
    dp_formats_timeline_say_same(out, "column", n_frames, "null");
    dp_formats_timeline_say(out, "\"length\":%zu},\n\"funcTable\":{", n_frames);
    COLUMN(out, "name", &t->functions, struct function, "%" PRIu32, row.name);
    COLUMN(out, "resource", &t->functions, struct function, "%" PRId32, row.library);
    COLUMN(out, "fileName", &t->functions, struct function, "%s", or_null(text, row.file, !row.file));
    dp_formats_timeline_say_same(out, "isJS", n_functions, "false");
    dp_formats_timeline_say_same(out, "relevantForJS", n_functions, "false");
    dp_formats_timeline_say_same(out, "lineNumber", n_functions, "null");
    dp_formats_timeline_say_same(out, "columnNumber", n_functions, "null");
    dp_formats_timeline_say(out, "\"length\":%zu},\n\"resourceTable\":{", n_functions);
    COLUMN(out, "name", &t->resources, uint32_t, "%" PRIu32, row);
    dp_formats_timeline_say_same(out, "lib", n_resources, "null");
    dp_formats_timeline_say_same(out, "host", n_resources, "null");
    dp_formats_timeline_say_same(out, "type", n_resources, "1");
    dp_formats_timeline_say(out, "\"length\":%zu},\n", n_resources);
    dp_formats_timeline_say(out, "\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],"
                                 "\"length\":0},\n");
    dp_formats_timeline_say_column(out, "stringArray");
    for (uint32_t i = 0; i < dp_strings_count(&t->strings); i++) {
        dp_formats_timeline_say_comma(out, i);
        dp_formats_timeline_say_string(out, dp_strings_at(&t->strings, i));
    }
    dp_formats_timeline_say(out, "]");
}

/* ---- life ---- */

void dp_formats_timeline_tables_begin(struct dp_formats_timeline_tables *t)
{
    dp_strings_clear(&t->strings);
    dp_strings_clear(&t->functions);
    dp_strings_clear(&t->frames);
    dp_strings_clear(&t->stacks);
    dp_strings_clear(&t->resources);
    memset(t->stack_of.at, 0, t->stack_of.n * sizeof *t->stack_of.at);
    dp_formats_timeline_tables_add_string(t, ""); /* number 0 */
}

int dp_formats_timeline_tables_init(struct dp_formats_timeline_tables *t, struct dp_formats_timeline *timeline)
{
    *t = (struct dp_formats_timeline_tables){.timeline = timeline};
    if (!dp_vec_room(&t->stack_of, timeline->model.rows.n + 1))
        return -ENOMEM;
    t->stack_of.n = timeline->model.rows.n;
    return 0;
}

void dp_formats_timeline_tables_fini(struct dp_formats_timeline_tables *t)
{
    dp_strings_fini(&t->strings);
    dp_strings_fini(&t->functions);
    dp_strings_fini(&t->frames);
    dp_strings_fini(&t->stacks);
    dp_strings_fini(&t->resources);
    dp_vec_fini(&t->stack_of);
}
