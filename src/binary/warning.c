/* SPDX-License-Identifier: MIT */
/* binary/warning.c - the lines for programs whose memory or waits hooks cannot see. */
#include "binary/warning.h"

#include "binary/futex_calls.h"

#include <stdio.h>
#include <string.h>

/* How an allocator inside the executable would be seen. */
static const char *way_to_see(const struct dp_binary *elf)
{
    if (elf->own_hooked)
        return "inside=on shows it";
    if (!strncmp(elf->own_malloc, "mi", 2))
        return "to see it, link it as a shared library, or use the crate in runtime_hooks/rust";
    return "to see it, link it as a shared library, or use the crate in runtime_hooks/rust; a jemalloc or tcmalloc is "
           "seen if its symbols are present: do not strip the program, or link it with -Wl,--export-dynamic, and "
           "without "
           "optimization at link time";
}

bool dp_binary_warn(const struct dp_binary *elf, const char *path, bool inside, char *line, size_t n_line)
{
    static const char *const runtimes[] = {
        [DP_BINARY_RUNTIME_GO] =
            "is a Go program, which does not allocate by malloc: only C code that it calls will be "
            "seen; Go's net/http/pprof shows the heap",
        [DP_BINARY_RUNTIME_JAVA] =
            "runs a Java machine: Java's objects will not be seen, native memory and locks will be; "
            "jcmd PID GC.class_histogram shows the objects",
        [DP_BINARY_RUNTIME_V8] =
            "has V8 inside: JavaScript's objects will not be seen, native memory and locks will be; "
            "node --heap-prof shows the objects",
        [DP_BINARY_RUNTIME_PARTITION_ALLOC] =
            "has PartitionAlloc inside, as Chromium has: its allocations will not be seen, "
            "locks will be; a build with use_partition_alloc_as_malloc=false shows it",
    };
    if (elf->runtime)
        snprintf(line, n_line, "%s %s", path, runtimes[elf->runtime]);
    else if (*elf->own_malloc && !(elf->own_hooked && inside))
        snprintf(line, n_line, "%s contains its own malloc (%s): %s; %s", path, elf->own_malloc,
                 elf->own_exported ? "its allocations will not be seen"
                                   : "allocations of the program will not be seen, only those of libraries",
                 way_to_see(elf));
    else
        return false;
    return true;
}

bool dp_binary_warn_of_waits(const struct dp_binary *elf, const char *path, char *line, size_t n_line)
{
    if (elf->runtime == DP_BINARY_RUNTIME_GO || !dp_binary_makes_futex_calls(path))
        return false;
    snprintf(line, n_line, "%s makes futex calls of its own, without libc: waits in them will not be seen", path);
    return true;
}
