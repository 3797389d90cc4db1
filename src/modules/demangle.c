/* SPDX-License-Identifier: MIT */
/*
 * modules/demangle.c - demangles names by the callback functions of libiberty, which allocate no memory. (Its other
 * functions end the process when malloc fails.) The recursion limit stays on, so a hostile name uses a bounded amount
 * of stack.
 */
#include "modules/demangle.h"

#include <libiberty/demangle.h>
#include <string.h>

struct text {
    char *out;
    size_t n, size;
};

static void append(const char *piece, size_t n_bytes, void *opaque)
{
    struct text *text = opaque;
    size_t room = text->size - 1 - text->n;
    size_t n = n_bytes < room ? n_bytes : room;
    memcpy(text->out + text->n, piece, n);
    text->n += n;
}

int dp_demangle(const char *mangled, char *out, size_t n_bytes)
{
    if (mangled[0] != '_' || (mangled[1] != 'Z' && mangled[1] != 'R' && mangled[1] != '_'))
        return 0;
    struct text text = {out, 0, n_bytes};
    int known = rust_demangle_callback(mangled, DMGL_NO_OPTS, append, &text);
    if (!known) {
        text.n = 0;
        known = cplus_demangle_v3_callback(mangled, DMGL_PARAMS | DMGL_ANSI, append, &text);
    }
    out[text.n] = 0;
    return known && text.n > 0;
}
