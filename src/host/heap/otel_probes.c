/* SPDX-License-Identifier: MIT */
/*
 * host/heap/otel_probes.c - the probe points. A probe is a nop and a note in the section .note.stapsdt, which tracers
 * (perf, bpftrace, OpenTelemetry's profiler) read from the file. The note has three addresses: of the nop, of the
 * section .stapsdt.base (by which a reader finds out how far prelink moved the file), and of the count of tracers; then
 * three texts: provider, probe, and where each argument lies.
 *
 * The arguments stand in the registers of a call's first arguments, because some readers take them from there without
 * reading the note's third text. For `alloc` on x86_64 it is "8@%rdi 8@%rsi 8@%rdx".
 */
#include "host/heap/otel_probes.h"

#define TRACERS __attribute__((section(".probes"), used))

TRACERS _Atomic uint16_t dp_heap_probe_alloc_tracers = 0;
TRACERS _Atomic uint16_t dp_heap_probe_free_tracers = 0;

#ifdef __x86_64__
#define FIRST          "rdi"
#define SECOND         "rsi"
#define THIRD          "rdx"
#define REGISTER(name) "%%" name
#else
#define FIRST          "x0"
#define SECOND         "x1"
#define THIRD          "x2"
#define REGISTER(name) name
#endif

/* Note type 3 of the owner "stapsdt" is a probe. The `?` puts the note into the group of the function's section. */
#define PROBE(probe, tracers, arguments)                                  \
    "990: nop\n"                                                          \
    ".pushsection .note.stapsdt,\"?\",%%note\n"                           \
    ".balign 4\n"                                                         \
    ".4byte 992f-991f, 994f-993f, 3\n"                                    \
    "991: .asciz \"stapsdt\"\n"                                           \
    "992: .balign 4\n"                                                    \
    "993: .8byte 990b, _.stapsdt.base, " #tracers "\n"                    \
    ".asciz \"otel_memory\"\n"                                            \
    ".asciz \"" probe "\"\n"                                              \
    ".asciz \"" arguments "\"\n"                                          \
    "994: .balign 4\n"                                                    \
    ".popsection\n"                                                       \
    ".ifndef _.stapsdt.base\n"                                            \
    ".pushsection .stapsdt.base,\"aG\",%%progbits,.stapsdt.base,comdat\n" \
    ".weak _.stapsdt.base\n"                                              \
    ".hidden _.stapsdt.base\n"                                            \
    "_.stapsdt.base: .space 1\n"                                          \
    ".size _.stapsdt.base, 1\n"                                           \
    ".popsection\n"                                                       \
    ".endif\n"

__attribute__((noinline)) void dp_heap_probe_alloc_hit(uintptr_t ptr, uint64_t n_bytes, uint64_t weighted_bytes)
{
    register uint64_t first __asm__(FIRST) = ptr;
    register uint64_t second __asm__(SECOND) = n_bytes;
    register uint64_t third __asm__(THIRD) = weighted_bytes;
    __asm__ volatile(
        PROBE("alloc", dp_heap_probe_alloc_tracers, "8@" REGISTER(FIRST) " 8@" REGISTER(SECOND) " 8@" REGISTER(THIRD))
        :
        : "r"(first), "r"(second), "r"(third)
        : "memory");
}

__attribute__((noinline)) void dp_heap_probe_free_hit(uintptr_t ptr)
{
    register uint64_t first __asm__(FIRST) = ptr;
    __asm__ volatile(PROBE("free", dp_heap_probe_free_tracers, "8@" REGISTER(FIRST)) : : "r"(first) : "memory");
}
