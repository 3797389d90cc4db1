/* SPDX-License-Identifier: MIT */
/* A lambda in a function that other files do not see: compilers give it no linkage name. */
#include <cstdint>

static inline __attribute__((always_inline)) std::uintptr_t pc_here()
{
    std::uintptr_t pc;
#if defined(__x86_64__)
    __asm__ volatile("lea 0(%%rip), %0" : "=r"(pc));
#else
    __asm__ volatile("adr %0, ." : "=r"(pc));
#endif
    return pc;
}

static __attribute__((noinline)) std::uintptr_t handle_request(int n)
{
    auto handler = [](int) __attribute__((always_inline))
    {
        return pc_here();
    };
    return handler(n);
}

extern "C" std::uintptr_t lambda_here()
{
    return handle_request(1);
}
