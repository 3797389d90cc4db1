/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/family.c - an append-only table of function names in memory that forked processes share.
 *
 *     | n_used | index: 4,096 offsets, 0 = free | entry | entry | ... |       entry = head, lines, strings
 *
 * 1. A writer reserves room by an atomic add, fills it, and publishes its offset in an index word that was 0, by CAS
 *    [FAMILY]. Without the release a reader could find an entry that is not filled. If a process dies before that, its
 *    room is wasted. Entries are never changed, moved or freed, so no lock is needed, and none can stay locked.
 * 2. Two processes may enter the same place at the same time; readers use the first entry that they find.
 * 3. Processes of a family may have different rights, so entries are not trusted: a reader copies an entry and checks
 *    size, offsets and strings in the copy. A hostile process can give false names, and no more.
 *
 * Progress: every operation ends after PROBES index words. When the table is full, further names are not shared.
 */
#include "host/symbols/family.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

enum { WORDS = 4096, PROBES = 16, LINES_MAX = 64 };
#define SHARED_BYTES ((size_t)512 << 10)

struct shared {
    _Atomic uint32_t n_used;
    _Atomic uint32_t index[WORDS]; /* offsets of entries */
    _Alignas(8) uint8_t bytes[];
};
#define ROOM_BYTES (SHARED_BYTES - sizeof(struct shared))

struct line {
    int64_t line, start_line;
    uint32_t name, system_name, file; /* offsets in the entry; 0: none */
    uint32_t unused;
};

struct head {
    struct dp_symbols_family_key key;
    uint32_t n_bytes, n_lines;
};

union entry {
    struct head head;
    char bytes[DP_FAMILY_ENTRY_BYTES];
};

static struct shared *_Atomic shared; /* relaxed: set before a fork, in the thread that forks */

/* What reports map, in this process and in its child: a cache must not take that from them. */
#define REPORT_BYTES ((size_t)4 << 20)

void dp_symbols_family_fork_prepare(void)
{
    if (dp_load_relaxed(&shared) || dp_mem_left() < SHARED_BYTES + REPORT_BYTES)
        return;
    struct shared *none = NULL, *made = dp_mem_map_shared(SHARED_BYTES);
    if (made && !dp_cas_publish(&shared, &none, made))
        dp_mem_unmap(made, SHARED_BYTES);
}

bool dp_symbols_family_key(struct dp_symbols_family_key *key, const struct dp_frame *frame, unsigned source)
{
    const struct dp_object *o = frame->object ? dp_object_get(frame->object) : NULL;
    if (!o || !o->build_id_bytes)
        return false;
    *key =
        (struct dp_symbols_family_key){.place = frame->pc - o->bias, .source = source, .n_build_id = o->build_id_bytes};
    memcpy(key->build_id, o->build_id, o->build_id_bytes);
    return true;
}

static uint32_t slot_of(const struct dp_symbols_family_key *key, unsigned probe)
{
    return (uint32_t)(dp_hash_bytes(key, sizeof *key, 0) + probe) % WORDS;
}

/* Copies an entry that another process wrote. False: it is not a valid entry. */
static bool copy(const struct shared *s, uint32_t offset, union entry *to)
{
    if (offset % 8 || offset > ROOM_BYTES - sizeof to->head)
        return false;
    memcpy(&to->head, s->bytes + offset, sizeof to->head);
    uint32_t n_bytes = to->head.n_bytes, n_lines = to->head.n_lines;
    if (n_bytes > sizeof *to || n_bytes > ROOM_BYTES - offset || n_lines > LINES_MAX ||
        n_bytes <= sizeof to->head + n_lines * sizeof(struct line))
        return false;
    memcpy(to->bytes + sizeof to->head, s->bytes + offset + sizeof to->head, n_bytes - sizeof to->head);
    to->bytes[n_bytes - 1] = '\0'; /* ends the last string, even if the entry changed meanwhile */
    return true;
}

static bool text_at(const union entry *e, uint32_t offset, const char **text)
{
    *text = offset ? e->bytes + offset : NULL;
    return offset < e->head.n_bytes;
}

static int lines_of(const union entry *e, struct dp_symbol_line *lines, int max)
{
    int n = (int)e->head.n_lines < max ? (int)e->head.n_lines : max;
    for (int i = 0; i < n; i++) {
        struct line line;
        memcpy(&line, e->bytes + sizeof e->head + (size_t)i * sizeof line, sizeof line);
        lines[i] = (struct dp_symbol_line){.line = line.line, .start_line = line.start_line};
        if (!line.name || !text_at(e, line.name, &lines[i].name) || !text_at(e, line.file, &lines[i].file) ||
            !text_at(e, line.system_name, &lines[i].system_name))
            return -ENOENT;
    }
    return n;
}

int dp_symbols_family_find(const struct dp_symbols_family_key *key, struct dp_symbol_line *lines, int max,
                           char text[DP_FAMILY_ENTRY_BYTES])
{
    const struct shared *s = dp_load_relaxed(&shared);
    union entry *e = (union entry *)text;
    for (unsigned probe = 0; s && probe < PROBES; probe++) {
        uint32_t offset = dp_load_acquire(&s->index[slot_of(key, probe)]); /* [FAMILY] */
        if (!offset)
            break;
        if (copy(s, offset - 1, e) && !memcmp(&e->head.key, key, sizeof *key))
            return lines_of(e, lines, max);
    }
    return -ENOENT;
}

/* Appends a string. Returns its offset; 0: no string, or no room: then *n_bytes is larger than an entry. */
static uint32_t append(union entry *e, size_t *n_bytes, const char *text)
{
    if (!text)
        return 0;
    size_t n = strlen(text) + 1, at = *n_bytes;
    *n_bytes += n;
    if (*n_bytes > sizeof *e)
        return 0;
    memcpy(e->bytes + at, text, n);
    return (uint32_t)at;
}

void dp_symbols_family_put(const struct dp_symbols_family_key *key, const struct dp_symbol_line *lines, int n)
{
    struct shared *s = dp_load_relaxed(&shared);
    union entry e = {.head = {.key = *key, .n_lines = (uint32_t)n}};
    size_t n_bytes = sizeof e.head + (size_t)n * sizeof(struct line) + 1;
    if (!s || n > LINES_MAX || n_bytes > sizeof e)
        return;
    for (int i = 0; i < n; i++) {
        struct line line = {.line = lines[i].line, .start_line = lines[i].start_line};
        line.name = append(&e, &n_bytes, lines[i].name);
        line.system_name = append(&e, &n_bytes, lines[i].system_name);
        line.file = append(&e, &n_bytes, lines[i].file);
        memcpy(e.bytes + sizeof e.head + (size_t)i * sizeof line, &line, sizeof line);
    }
    if (n_bytes > sizeof e)
        return;
    e.head.n_bytes = (uint32_t)n_bytes;
    uint32_t n_taken = (uint32_t)(n_bytes + 7) & ~7u;
    if (dp_load_relaxed(&s->n_used) > ROOM_BYTES - n_taken) /* so that n_used never wraps */
        return;
    uint32_t offset = dp_add_relaxed(&s->n_used, n_taken);
    if (offset % 8 || offset > ROOM_BYTES - n_taken)
        return;
    memcpy(s->bytes + offset, &e, n_bytes);
    for (unsigned probe = 0; probe < PROBES; probe++) {
        uint32_t none = 0;
        if (dp_cas_publish(&s->index[slot_of(key, probe)], &none, offset + 1)) /* [FAMILY] */
            return;
    }
}
