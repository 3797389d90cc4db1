/* SPDX-License-Identifier: MIT */
/*
 * base/vma.c - tells the kinds of mappings apart by what glibc and the kernel are known to do:
 *
 * - The kernel names brk's memory [heap] and the first stack [stack].
 * - malloc's arenas for threads begin at a multiple of 64 MiB, and what an arena does not use yet is reserved behind
 * it.
 * - A thread's stack has a guard without access below it, and is a multiple of 64 KiB. Stacks of other sizes count as
 *   other anonymous memory, unless the caller knows better.
 * - The memory of a library that its file does not fill (.bss) follows directly behind the last part of the file.
 *
 * The kernel joins neighbours, so the last two are cut where they must end.
 */
#include "base/vma.h"

#include "base/elf_headers.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BYTES ((uintptr_t)64 << 20)
#define STACK_STEP  ((uintptr_t)64 << 10)

/* The guard that glibc gives the stack of a thread, if the program asks for no other. */
static uintptr_t guard_bytes(void)
{
#if defined(__aarch64__)
    return (uintptr_t)64 << 10; /* the most that a page has there */
#else
    return dp_page_bytes();
#endif
}

static const char *hex(const char *p, const char *end, uintptr_t *value)
{
    for (*value = 0; p < end; p++) {
        unsigned digit = *p >= 'a' ? (unsigned)(*p - 'a') + 10 : (unsigned)(*p - '0');
        if (digit > 15)
            break;
        *value = *value << 4 | digit;
    }
    return p;
}

static const char *skip_word(const char *p, const char *end)
{
    while (p < end && *p == ' ')
        p++;
    while (p < end && *p != ' ')
        p++;
    return p;
}

bool dp_vma_parse(const char *line, size_t n, struct dp_vma *vma)
{
    const char *end = line + n, *p = hex(line, end, &vma->start);
    if (p == line || p == end || *p != '-')
        return false;
    p = hex(p + 1, end, &vma->end);
    if (end - p < 5 || *p != ' ' || vma->end <= vma->start)
        return false;
    vma->is_accessible = p[1] == 'r' || p[2] == 'w' || p[3] == 'x';
    vma->is_writable = p[2] == 'w';
    vma->is_code = p[3] == 'x';
    vma->is_shared = p[4] == 's';
    uintptr_t offset = 0;
    if (end - p > 6)
        p = hex(p + 6, end, &offset);
    vma->offset = offset;
    for (int word = 0; word < 2; word++) /* device, inode */
        p = skip_word(p, end);
    while (p < end && *p == ' ')
        p++;
    vma->name = p;
    vma->n_name = (size_t)(end - p);
    vma->is_anonymous = p == end || *p == '[';
    vma->kind = DP_VMA_OTHER;
    vma->is_bss = vma->is_apart = false;
    vma->anonymous_bytes = 0;
    return true;
}

static bool is_named(const struct dp_vma *vma, const char *name)
{
    return vma->n_name == strlen(name) && !memcmp(vma->name, name, vma->n_name);
}

static bool is_plain(const struct dp_vma *vma)
{
    return !vma->n_name || (vma->n_name > 6 && !memcmp(vma->name, "[anon:", 6));
}

/* A program may have made the last pages of its data read-only. */
static bool is_behind_file(const struct dp_vma *vma, const struct dp_vma *below)
{
    return vma->is_writable && !vma->is_shared && below && below->end == vma->start && !below->is_anonymous &&
           !below->is_shared;
}

/* Where the segment that begins in the mapping `data` of the file ends, with its .bss; 0: not known. */
static uintptr_t segment_end(int fd, const struct dp_vma *data)
{
    Elf64_Phdr phdrs[DP_ELF_HEADERS_MAX];
    size_t n = dp_elf_read_headers(fd, phdrs);
    for (size_t i = 0; i < n; i++) {
        Elf64_Phdr phdr = phdrs[i];
        /* The mapping may be the later part of the segment: the first is read-only after relocation. */
        uint64_t first = dp_page_floor(phdr.p_offset);
        if (phdr.p_type != PT_LOAD || data->offset < first || data->offset >= phdr.p_offset + phdr.p_filesz)
            continue;
        return dp_page_ceil(data->start - (data->offset - first) + (phdr.p_offset - first) + phdr.p_memsz);
    }
    return 0;
}

/* Where the .bss of the file's mapping `below` ends; 0: not known, or vma is none. */
static uintptr_t bss_end(const char *root, const struct dp_vma *below, const struct dp_vma *vma)
{
    char path[1024];
    size_t n_root = strlen(root);
    if (!is_behind_file(vma, below) || n_root + below->n_name >= sizeof path)
        return 0;
    memcpy(path, root, n_root);
    memcpy(path + n_root, below->name, below->n_name);
    path[n_root + below->n_name] = '\0';
    int saved = errno, fd = open(path, O_RDONLY | O_CLOEXEC);
    uintptr_t end = fd < 0 ? 0 : segment_end(fd, below);
    if (fd >= 0)
        close(fd);
    errno = saved;
    return end;
}

/* Whether a thread's stack may begin with vma: a guard lies below. What an arena has in reserve may look like one; the
 * next arena then begins at a multiple of its size. */
static bool is_guarded(const struct dp_vma *below, const struct dp_vma *vma)
{
    return vma->start % ARENA_BYTES && vma->is_writable && !vma->is_shared && below && below->end == vma->start &&
           !below->is_accessible && below->is_anonymous && below->end - below->start == guard_bytes();
}

bool dp_vma_cut(const struct dp_vma_cuts *cuts, const struct dp_vma *below, struct dp_vma *vma, struct dp_vma *rest)
{
    if (!vma->is_anonymous || vma->n_name)
        return false;
    uintptr_t end = bss_end(cuts->root, below, vma);
    vma->is_apart = end && end <= vma->start;
    vma->is_bss = end > vma->start;
    if (!end)
        end = is_guarded(below, vma) ? vma->start + cuts->stack_bytes : 0;
    if (end <= vma->start || end >= vma->end)
        return false;
    *rest = *vma;
    rest->start = vma->end = end;
    rest->is_bss = false;
    return true;
}

static bool is_thread_stack(const struct dp_vma *vma, const struct dp_vma *below)
{
    return is_guarded(below, vma) && (vma->end - vma->start) % STACK_STEP == 0;
}

static bool is_arena(const struct dp_vma *vma, const struct dp_vma *above)
{
    uintptr_t limit = vma->start + ARENA_BYTES;
    return vma->is_writable && vma->start % ARENA_BYTES == 0 && vma->end <= limit &&
           (vma->end == limit ||
            (above && above->start == vma->end && !above->is_accessible && above->is_anonymous && above->end >= limit));
}

static enum dp_vma_kind kind_of(const struct dp_vma *vma, const struct dp_vma *below, const struct dp_vma *above)
{
    if (vma->is_shared)
        return DP_VMA_SHARED;
    if (!vma->is_anonymous)
        return DP_VMA_FILE;
    if (is_named(vma, "[heap]"))
        return DP_VMA_BRK;
    if (is_named(vma, "[stack]"))
        return DP_VMA_STACK;
    if (!is_plain(vma) || !vma->is_accessible)
        return DP_VMA_OTHER;
    if (vma->is_bss || (is_behind_file(vma, below) && below->is_writable && !vma->is_apart))
        return DP_VMA_FILE;
    if (is_arena(vma, above))
        return DP_VMA_ARENA;
    return is_thread_stack(vma, below) ? DP_VMA_STACK : DP_VMA_MAPPED;
}

void dp_vma_classify(struct dp_vma *vmas, size_t n)
{
    for (size_t i = 0; i < n; i++)
        vmas[i].kind = (uint8_t)kind_of(&vmas[i], i ? &vmas[i - 1] : NULL, i + 1 < n ? &vmas[i + 1] : NULL);
}

struct dp_vma *dp_vma_find(struct dp_vma *vmas, size_t n, uintptr_t address)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (vmas[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && vmas[low].start <= address ? &vmas[low] : NULL;
}
