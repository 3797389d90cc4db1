/* SPDX-License-Identifier: MIT */
/*
 * base/cpu.h - what the processor has. It executes CPUID directly: __builtin_cpu_supports brings a constructor of
 * libgcc with a dozen CPUIDs. In a virtual machine each one exits to the hypervisor: 100 us in every process that loads
 * this library. So callers keep the answer.
 */
#pragma once

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdbool.h>

/* Whether there is AVX, and the system saves its registers. */
static inline bool dp_cpu_has_avx(void)
{
    unsigned a, b, c = 0, d, low = 0, high = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6;
}

/* Whether it multiplies polynomials: two words at once (PCLMULQDQ), and four (VPCLMULQDQ, with AVX2). */
static inline bool dp_cpu_has_pclmul(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_PCLMUL;
}

static inline bool dp_cpu_has_vpclmul(void)
{
    unsigned a, b = 0, c = 0, d;
    return dp_cpu_has_avx() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX2 && c & bit_VPCLMULQDQ;
}

#endif
