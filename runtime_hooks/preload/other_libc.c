/* SPDX-License-Identifier: MIT */
/*
 * other_libc.c - keeps this object out of programs with musl, which inherit LD_PRELOAD from a program with glibc.
 *
 * musl's loader ends a program if a preloaded object needs a library that is not there, such as glibc. But an object
 * that defines `__libc_start_main` and `stdin` counts as a libc: the loader then uses itself in its place. So this
 * object defines a symbol `stdin`. Its version is one that no program asks for, so programs with glibc are not linked
 * to it. dlsym can find it; it is an alias of glibc's own.
 *
 * The musl program then runs without the profiler, so the process that executes it says a line (exec.c). The
 * executable's PT_INTERP tells: the loader's name stands there, close to the begin of the file.
 *
 * In the other direction ld.so refuses an object of another system (examples/deploy/bundle.sh marks the one for musl),
 * and says so itself.
 */
#include "hook.h"

#ifdef __GLIBC__

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char _IO_2_1_stdin_[];

DP_HOOK extern void *stdin; /* not <stdio.h>'s: this object defines it */
void *stdin = _IO_2_1_stdin_;

#if defined(__x86_64__)
#define SYSTEM_CALL(...) DP_REAL(syscall)(__VA_ARGS__)
#else
#define SYSTEM_CALL(...) DP_REAL(syscall)(__VA_ARGS__, 0)
#endif

/* Reads the begin of a regular file; not by open and read, at which a thread may be cancelled. */
static size_t read_begin(const char *path, char *to, size_t n_bytes)
{
    long fd = SYSTEM_CALL(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0);
    if (fd < 0)
        return 0;
    long n = SYSTEM_CALL(SYS_pread64, fd, (long)to, (long)n_bytes, 0, 0);
    SYSTEM_CALL(SYS_close, fd, 0, 0, 0, 0);
    return n > 0 ? (size_t)n : 0;
}

/* Whether the program's loader is musl's. */
static bool is_musl(const char *head, size_t n_head)
{
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)head;
    if (n_head < sizeof *elf || memcmp(head, ELFMAG, SELFMAG) != 0 || elf->e_phentsize != sizeof(Elf64_Phdr))
        return false;
    for (size_t at = elf->e_phoff, i = 0; i < elf->e_phnum; i++, at += sizeof(Elf64_Phdr)) {
        Elf64_Phdr segment;
        if (at > n_head || n_head - at < sizeof segment)
            return false;
        memcpy(&segment, head + at, sizeof segment);
        if (segment.p_type == PT_INTERP) /* it ends with a zero byte */
            return segment.p_offset < n_head && segment.p_filesz <= n_head - segment.p_offset && segment.p_filesz &&
                   !head[segment.p_offset + segment.p_filesz - 1] && strstr(head + segment.p_offset, "/ld-musl-");
    }
    return false;
}

void dp_say_if_musl(const char *path)
{
    static const char says[] = ": uses musl, so it runs without the profiler; deltaprof run profiles it";
    _Alignas(Elf64_Ehdr) char head[2048];
    char line[512];
    if (!dp_was_preloaded || !is_musl(head, read_begin(path, head, sizeof head)))
        return;
    size_t n_path = strlen(path); /* the kernel has read it */
    if (n_path + sizeof says > sizeof line)
        return;
    memcpy(line, path, n_path);
    memcpy(line + n_path, says, sizeof says);
    deltaprof_say(line);
}

#else

void dp_say_if_musl(const char *path) {}

#endif
