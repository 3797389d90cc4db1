/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/folded.c - folded stacks, one line a stack: `root;...;leaf NUMBER`, as flame graph scripts read and
 * write them.
 *
 * A frame without a name is written as 0xADDRESS. In names, `;` becomes `:`, and control characters become blanks: text
 * has none. A line that begins with `# `, and a line with `#` that has no number, is a comment; where a stack would
 * make such a line, its `#` is written as `_`.
 */
#include "tool/formats/formats.h"

#include "tool/formats/bytes.h"
#include "tool/formats/stack_names.h"
#include "pprof/decode.h"
#include "pprof/encode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_name(struct dp_formats_bytes *to, const char *name)
{
    if (to->n)
        put_raw(to, ";", 1);
    for (; *name; name++) {
        char c = *name == ';' ? ':' : (unsigned char)*name < ' ' ? ' ' : *name;
        put_raw(to, &c, 1);
    }
}

int dp_formats_write_folded(const struct dp_formats_profile *p, uint32_t type, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_strings stacks = {.bytes = {0}};
    DP_VEC(int64_t) sums = {0};
    struct dp_formats_bytes line = {0};
    const struct dp_model *m = p->model;
    int err = 0;
    for (size_t i = 0; i < p->n_rows && !err; i++) {
        int64_t value = p->values[p->rows[i] * m->types.n + p->first_type + type];
        if (!value)
            continue;
        dp_vec_clear(&line);
        for (uint32_t k = dp_model_depth(m, p->rows[i]); k-- > 0;) {
            uint32_t location = dp_model_stack(m, p->rows[i])[k];
            for (uint32_t n = dp_formats_n_names(m, location); n-- > 0;) {
                char room[DP_FORMATS_NAME_BYTES];
                put_name(&line, dp_formats_name(m, location, n, room));
            }
        }
        if (!line.n)
            put_name(&line, "[no stack]");
        if (line.n && line.at[0] == '#' && (line.n == 1 || line.at[1] == ' '))
            line.at[0] = '_';
        uint32_t number = line.failed ? DP_STRINGS_NONE : dp_strings_add(&stacks, (const char *)line.at, line.n);
        int64_t *sum = number == DP_STRINGS_NONE ? NULL
                       : number - 1 < sums.n     ? &sums.at[number - 1]
                                                 : dp_vec_push(&sums);
        if (!sum)
            err = -ENOMEM;
        else if (__builtin_add_overflow(*sum, value, sum))
            *sum = value < 0 ? INT64_MIN : INT64_MAX;
    }
    for (uint32_t i = 0; i < sums.n && !err; i++) {
        char number[32];
        int n = snprintf(number, sizeof number, " %lld\n", (long long)sums.at[i]);
        err = fn(ctx, dp_strings_at(&stacks, i + 1), dp_strings_size(&stacks, i + 1));
        err = err ? err : fn(ctx, number, (size_t)n);
    }
    dp_strings_fini(&stacks);
    dp_vec_fini(&sums);
    dp_vec_fini(&line);
    return err;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Makes locations of pprof that have only a name. */
struct named {
    struct dp_encode *encode;
    struct dp_strings names;
    DP_VEC(uint64_t) locations; /* id by number of the name */
    DP_VEC(uint64_t) stack;     /* of the line, leaf first */
};

static int push_frame(struct named *named, const char *name, size_t n_bytes)
{
    uint32_t number = dp_strings_add(&named->names, name, n_bytes);
    uint64_t *to = number == DP_STRINGS_NONE ? NULL : dp_vec_push(&named->stack);
    if (!to)
        return -ENOMEM;
    while (number >= named->locations.n) {
        uint64_t *id = dp_vec_push(&named->locations);
        if (!id)
            return -ENOMEM;
        *id = 0;
    }
    uint64_t *id = &named->locations.at[number];
    if (!*id) {
        int64_t text = dp_encode_string(named->encode, name, n_bytes);
        struct dp_encode_line line = {.function = dp_encode_function(named->encode, text, 0, 0, 0)};
        *id = dp_encode_location(named->encode, 0, 0, &line, 1);
    }
    *to = *id;
    return 0;
}

/* Adds the sample of one line. 0, -EBADMSG: the line has no number at its end, or -ENOMEM. */
static int read_line(struct named *named, const char *line, size_t n_bytes)
{
    size_t n_stack = n_bytes;
    while (n_stack && line[n_stack - 1] != ' ')
        n_stack--;
    char text[32] = "", *end;
    size_t n_number = n_bytes - n_stack;
    if (!n_stack || !n_number || n_number >= sizeof text)
        return -EBADMSG;
    memcpy(text, line + n_stack, n_number);
    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    if (*end || errno)
        return -EBADMSG;
    int err = 0;
    dp_vec_clear(&named->stack);
    for (size_t end_of_name = n_stack - 1, at = end_of_name; !err; at--) /* leaf first */
        if (at == 0 || line[at - 1] == ';') {
            err = push_frame(named, line + at, end_of_name - at);
            if (at == 0)
                break;
            end_of_name = at - 1;
        }
    if (!err)
        dp_encode_sample(named->encode, named->stack.at, named->stack.n, &value, NULL, 0);
    return err;
}

int dp_formats_read_folded(const uint8_t *bytes, size_t n_bytes, dp_pprof_write_fn fn, void *ctx,
                           struct dp_decode_error *error)
{
    struct named named = {.encode = dp_encode_new(fn, ctx)};
    const struct dp_encode_value_type type = {"samples", "count"};
    struct dp_encode_header header = {.types = &type, .n_types = 1};
    int err = named.encode ? 0 : -ENOMEM;
    if (!err)
        dp_encode_header(named.encode, &header);
    const char *at = n_bytes ? (const char *)bytes : "", *end = at + n_bytes; /* no bytes may be at NULL */
    for (size_t line = 1; at < end && !err; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at)) ?: end;
        size_t n = (size_t)(stop - at);
        while (n && (at[n - 1] == '\r' || at[n - 1] == ' '))
            n--;
        bool may_be_comment = n && *at == '#', is_comment = may_be_comment && (n == 1 || at[1] == ' ');
        err = n && !is_comment ? read_line(&named, at, n) : 0;
        if (err == -EBADMSG && may_be_comment)
            err = 0;
        if (err == -EBADMSG)
            err = dp_decode_fail(error, "line %zu: not `frame;frame NUMBER`", line);
        at = stop + 1;
    }
    if (!err)
        err = dp_encode_finish(named.encode);
    dp_encode_free(named.encode);
    dp_strings_fini(&named.names);
    dp_vec_fini(&named.locations);
    dp_vec_fini(&named.stack);
    return err;
}
