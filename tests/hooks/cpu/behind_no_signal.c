/* SPDX-License-Identifier: MIT */
/* Behind the preload object: a kernel that keeps signal 32 for itself, as an emulator does. */
#include <errno.h>
#include <sys/syscall.h>

__attribute__((visibility("default"))) long syscall(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    if (number == SYS_rt_sigaction && a == 32) {
        errno = EINVAL;
        return -1;
    }
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
