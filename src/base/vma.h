/* SPDX-License-Identifier: MIT */
/*
 * base/vma.h - tells the kinds of mappings in /proc/PID/maps apart: brk, malloc's arenas, stacks, private pages of
 * files, other anonymous memory. The caller reads the file. Context: outside hooks; plain system calls.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dp_vma_kind {
    DP_VMA_OTHER,  /* of the kernel (vdso), or reserved address space without access */
    DP_VMA_BRK,    /* [heap] */
    DP_VMA_ARENA,  /* of glibc's malloc, for threads */
    DP_VMA_STACK,  /* of the main thread, or of a thread with a guard page */
    DP_VMA_FILE,   /* a file mapped privately, and the zeroed memory behind it (.bss) */
    DP_VMA_MAPPED, /* other private anonymous memory */
    DP_VMA_SHARED, /* shared memory and files mapped shared */
    DP_VMA_BLOCKS, /* large blocks of glibc's malloc, each a mapping of its own; set by the caller */
    DP_VMA_KINDS
};

struct dp_vma {
    uintptr_t start, end;
    uint64_t offset; /* in the file */
    uint8_t kind;    /* enum dp_vma_kind; set by dp_vma_classify */
    bool is_accessible, is_writable, is_code, is_shared;
    bool is_anonymous;       /* no file */
    bool is_bss, is_apart;   /* of a file, whose mapping ends where it begins: certainly, or certainly not */
    const char *name;        /* in the line: path, [heap], [anon:NAME]; not terminated */
    size_t n_name;           /* 0: none */
    int64_t anonymous_bytes; /* resident and anonymous; set by the caller */
};

/* Reads one line of maps, of n bytes, without newline. False: it is none. */
bool dp_vma_parse(const char *line, size_t n, struct dp_vma *vma);

/*
 * The kernel joins mappings that lie side by side. If `vma` is longer than what must begin there, cuts it: *rest is
 * what follows. That is the .bss of a library, if `below` is a writable part of its file, which is opened; if the file
 * has no .bss, is_apart is set. Or it is a thread's stack of the usual size, if `below` is a guard. below: NULL if vma
 * is the first. False: nothing was cut. errno is kept.
 */
struct dp_vma_cuts {
    const char *root;   /* of the file system of the process: "", or /proc/PID/root */
    size_t stack_bytes; /* with the guard */
};
bool dp_vma_cut(const struct dp_vma_cuts *cuts, const struct dp_vma *below, struct dp_vma *vma, struct dp_vma *rest);

/* Sets the kind of all n mappings of a process, which are in the order of their addresses. */
void dp_vma_classify(struct dp_vma *vmas, size_t n);

/* The mapping that holds an address; NULL: none. */
struct dp_vma *dp_vma_find(struct dp_vma *vmas, size_t n, uintptr_t address);
