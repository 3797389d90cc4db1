/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/segment.c - reads /proc/self/maps and program headers, by read(2), into memory of dp_mem.
 *
 * The kernel returns /proc/self/maps in whole lines, about a page at a time. A mapping that changes between two reads
 * is seen before or after the change, never in between.
 */
#include "host/symbols/segment.h"

#include "base/elf_headers.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/text.h"
#include "host/symbols/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const char *hex(const char *p, uintptr_t *value)
{
    for (*value = 0;; p++) {
        unsigned digit = *p >= 'a' ? (unsigned)(*p - 'a') + 10 : (unsigned)(*p - '0');
        if (digit > 15)
            return p;
        *value = *value << 4 | digit;
    }
}

/* "start-limit perms offset dev inode   path"; 1: an executable segment. */
static int parse(const char *text, const char *p, const char *end, struct dp_symbols_segment *out)
{
    p = hex(p, &out->start);
    p = hex(p + 1, &out->limit);
    if (end - p < 6 || p[3] != 'x')
        return 0;
    p = hex(p + 6, &out->offset);
    while (p < end && *p == ' ')
        p++;
    out->file = (uint32_t)(p - text);
    for (int word = 0; word < 2; word++) { /* dev, inode */
        while (p < end && *p == ' ')
            p++;
        while (p < end && *p != ' ')
            p++;
    }
    out->n_file = (uint32_t)(p - text) - out->file;
    while (p < end && *p == ' ')
        p++;
    static const char deleted[] = " (deleted)";
    if ((size_t)(end - p) >= sizeof deleted && !memcmp(end - (sizeof deleted - 1), deleted, sizeof deleted - 1))
        end -= sizeof deleted - 1;
    out->path = (uint32_t)(p - text);
    out->n_path = (uint32_t)(end - p);
    return 1;
}

static int parse_all(struct dp_symbols_segments *s)
{
    const char *p = s->text.at, *end = p + s->text.n;
    while (p < end) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p));
        if (!line_end)
            break;
        struct dp_symbols_segment found, *kept;
        if (parse(s->text.at, p, line_end, &found)) {
            if (!(kept = dp_vec_push(s)))
                return -ENOMEM;
            *kept = found;
        }
        p = line_end + 1;
    }
    return 0;
}

/* An ended process has none. */
static int open_maps(void)
{
    char path[sizeof dp_symbols_outside.proc + 8];
    if (!dp_symbols_outside.is_on)
        return dp_process_open("maps");
    dp_text_format(path, sizeof path, "%s/maps", dp_symbols_outside.proc);
    return open(dp_symbols_outside.proc[0] ? path : "", O_RDONLY | O_CLOEXEC);
}

int dp_symbols_segments_read(struct dp_symbols_segments *s)
{
    int saved = errno, fd = open_maps(), err = fd < 0 ? -errno : 0;
    dp_vec_clear(s);
    dp_vec_clear(&s->text);
    if (fd >= 0) {
        err = dp_io_read_rest(fd, &s->text.at, &s->text.n, &s->text.cap);
        close(fd);
    }
    if (!err)
        err = parse_all(s);
    if (err)
        dp_vec_clear(s);
    errno = saved;
    return err;
}

void dp_symbols_segments_fini(struct dp_symbols_segments *s)
{
    dp_vec_fini(&s->text);
    dp_vec_fini(s);
}

const struct dp_symbols_segment *dp_symbols_segments_find(const struct dp_symbols_segments *s, uintptr_t address)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->at[mid].limit <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n && s->at[lo].start <= address ? &s->at[lo] : NULL;
}

bool dp_symbols_segments_same_file(const struct dp_symbols_segments *s, const struct dp_symbols_segment *a,
                                   const struct dp_symbols_segment *b)
{
    return a->n_path && a->n_file == b->n_file && !memcmp(s->text.at + a->file, s->text.at + b->file, a->n_file);
}

bool dp_symbols_segments_is_file(const struct dp_symbols_segments *segments, const struct dp_symbols_segment *s,
                                 const char *path)
{
    struct stat st;
    char file[64];
    int saved = errno;
    bool is = s->n_path && stat(path, &st) == 0;
    size_t n = is ? dp_text_format(file, sizeof file, "%02x:%02x %llu", major(st.st_dev), minor(st.st_dev),
                                   (unsigned long long)st.st_ino)
                  : 0;
    errno = saved;
    return is && n == s->n_file && !memcmp(segments->text.at + s->file, file, n);
}

/* ---- program headers of a file ---------------------------------------------------------------------------------- */

#define NOTES_MAX 4096

/* Whether these notes contain the build-id. */
static bool has_build_id(int fd, const ElfW(Phdr) * ph, const uint8_t *build_id, size_t n_build_id)
{
    _Alignas(8) char notes[NOTES_MAX];
    size_t want = ph->p_filesz < sizeof notes ? ph->p_filesz : sizeof notes;
    ssize_t got = pread(fd, notes, want, (off_t)ph->p_offset);
    for (size_t at = 0; got > 0 && at + sizeof(ElfW(Nhdr)) <= (size_t)got;) {
        ElfW(Nhdr) note;
        memcpy(&note, notes + at, sizeof note);
        size_t name = at + sizeof note, desc = name + ((note.n_namesz + (size_t)3) & ~(size_t)3);
        size_t next = desc + ((note.n_descsz + (size_t)3) & ~(size_t)3);
        if (next > (size_t)got || next <= at)
            break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(notes + name, "GNU", 4))
            return note.n_descsz == n_build_id && !memcmp(notes + desc, build_id, n_build_id);
        at = next;
    }
    return false;
}

static int find_segment(int fd, const uint8_t *build_id, size_t n_build_id, uintptr_t vaddr,
                        struct dp_symbols_segment *out)
{
    ElfW(Phdr) ph[DP_ELF_HEADERS_MAX];
    size_t n = dp_elf_read_headers(fd, ph);
    if (!n)
        return -ENOEXEC;
    int same = n_build_id == 0, err = -ENOENT;
    for (size_t i = 0; i < n; i++) {
        if (ph[i].p_type == PT_NOTE && !same)
            same = has_build_id(fd, &ph[i], build_id, n_build_id);
        if (ph[i].p_type == PT_LOAD && (ph[i].p_flags & PF_X) && vaddr - ph[i].p_vaddr < ph[i].p_memsz) {
            out->start = dp_page_floor(ph[i].p_vaddr);
            out->limit = dp_page_ceil(ph[i].p_vaddr + ph[i].p_memsz);
            out->offset = dp_page_floor(ph[i].p_offset);
            err = 0;
        }
    }
    return same ? err : -ESTALE;
}

int dp_symbols_segment_of_file(const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias,
                               uintptr_t address, struct dp_symbols_segment *segment)
{
    int saved = errno, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = fd < 0 ? -errno : 0;
    if (fd >= 0) {
        err = find_segment(fd, build_id, n_build_id, address - bias, segment);
        close(fd);
        segment->start += bias;
        segment->limit += bias;
    }
    errno = saved;
    return err;
}

int dp_symbols_segment_bias(const char *path, const struct dp_symbols_segment *segment, uintptr_t *bias)
{
    ElfW(Phdr) ph[DP_ELF_HEADERS_MAX];
    int saved = errno, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = fd < 0 ? -errno : -ENOENT;
    size_t n = fd < 0 ? 0 : dp_elf_read_headers(fd, ph);
    if (fd >= 0 && !n)
        err = -ENOEXEC;
    uintptr_t size_bytes = segment->limit - segment->start;
    for (size_t i = 0; i < n && err; i++) {
        uintptr_t end = ph[i].p_offset + ph[i].p_filesz;
        if (ph[i].p_type != PT_LOAD || !(ph[i].p_flags & PF_X) || segment->offset >= end ||
            segment->offset + size_bytes <= ph[i].p_offset)
            continue;
        *bias = segment->start - segment->offset + ph[i].p_offset - ph[i].p_vaddr;
        err = 0;
    }
    if (fd >= 0)
        close(fd);
    errno = saved;
    return err;
}
