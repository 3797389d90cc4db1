/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/segment.h - finds the executable segments of this process: in /proc/self/maps, or in an ELF file after
 * it was unmapped. Plain system calls: safe in a forked child.
 */
#pragma once

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

struct dp_symbols_segment {
    uintptr_t start, limit, offset;
    uint32_t path, n_path; /* in text: "" for anonymous memory, "[vdso]", or a file, without " (deleted)" */
    uint32_t file, n_file; /* in text: device and inode, the same for all segments of one file */
};

/* The executable lines of /proc/self/maps, by address. Zero is empty. */
struct dp_symbols_segments {
    struct dp_symbols_segment *at;
    size_t n, cap;
    struct {
        char *at;
        size_t n, cap;
    } text;
};

/* Reads /proc/self/maps again. -errno: *segments is empty. */
int dp_symbols_segments_read(struct dp_symbols_segments *segments);
void dp_symbols_segments_fini(struct dp_symbols_segments *segments);

/* The segment that holds address; NULL: none. */
const struct dp_symbols_segment *dp_symbols_segments_find(const struct dp_symbols_segments *segments,
                                                          uintptr_t address);

/* Whether both are mapped from one file; a path alone may have become another file. */
bool dp_symbols_segments_same_file(const struct dp_symbols_segments *segments, const struct dp_symbols_segment *a,
                                   const struct dp_symbols_segment *b);

/* Whether the segment is mapped from the file that now has this path, by device and inode: one system call. */
bool dp_symbols_segments_is_file(const struct dp_symbols_segments *segments, const struct dp_symbols_segment *s,
                                 const char *path);

/*
 * The executable segment of the ELF file at path that would hold address when loaded at bias; page-aligned, path and
 * file unset. -ENOENT: no such segment; -ESTALE: the file has another build-id (n_build_id 0: any is accepted).
 */
int dp_symbols_segment_of_file(const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias,
                               uintptr_t address, struct dp_symbols_segment *segment);

/*
 * What to subtract from addresses in the segment, which is a mapping of the ELF file at path, to get addresses in the
 * file: of the executable PT_LOAD that the mapping shows. -ENOENT: it shows none; -ENOEXEC: no ELF file. Source: the
 * base address of the System V ABI, Program Loading.
 */
int dp_symbols_segment_bias(const char *path, const struct dp_symbols_segment *segment, uintptr_t *bias);
