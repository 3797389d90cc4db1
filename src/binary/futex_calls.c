/* SPDX-License-Identifier: MIT */
/*
 * binary/futex_calls.c - looks in a program's code for the futex call itself: the number goes into its register, and
 * the instruction that enters the kernel follows. Go's runtime does that, and programs that bring a C library inside.
 *
 * Only the first megabytes of code are read, since the program waits for it to start.
 */
#include "binary/futex_calls.h"

#include "binary/search.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_MOST = 32 << 20, NEAR_BYTES = 32 };

#if defined(__x86_64__)
static const uint8_t number[] = {0xb8, 0xca, 0, 0, 0}; /* mov $202, %eax */
static const uint8_t enter[] = {0x0f, 0x05};           /* syscall */
#else
static const uint8_t number[] = {0x48, 0x0c, 0x80, 0xd2}; /* mov x8, #98 */
static const uint8_t enter[] = {0x01, 0, 0, 0xd4};        /* svc #0 */
#endif

static bool has_call(const uint8_t *code, size_t n)
{
    const uint8_t *end = code + n, *at = code;
    while ((at = dp_binary_search(at, (size_t)(end - at), number, sizeof number, 0))) {
        at += sizeof number;
        size_t near = (size_t)(end - at) < NEAR_BYTES ? (size_t)(end - at) : NEAR_BYTES;
        if (memmem(at, near, enter, sizeof enter))
            return true;
    }
    return false;
}

static bool find_call(const uint8_t *file, size_t n)
{
    Elf64_Ehdr head;
    size_t left = READ_MOST;
    memcpy(&head, file, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phoff > n)
        return false;
    for (size_t i = 0; i < head.e_phnum && head.e_phoff + (i + 1) * sizeof(Elf64_Phdr) <= n; i++) {
        Elf64_Phdr p;
        memcpy(&p, file + head.e_phoff + i * sizeof p, sizeof p);
        if (p.p_type != PT_LOAD || !(p.p_flags & PF_X) || p.p_offset > n)
            continue;
        size_t size = p.p_filesz < n - p.p_offset ? p.p_filesz : n - p.p_offset;
        size = size < left ? size : left;
        left -= size;
        if (has_call(file + p.p_offset, size))
            return true;
    }
    return false;
}

bool dp_binary_makes_futex_calls(const char *path)
{
    struct stat st;
    bool found = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (!fstat(fd, &st) && st.st_size >= (off_t)sizeof(Elf64_Ehdr)) {
        size_t n = (size_t)st.st_size;
        void *file = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            found = find_call(file, n);
            munmap(file, n);
        }
    }
    close(fd);
    return found;
}
