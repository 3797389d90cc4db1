/* SPDX-License-Identifier: MIT */
/* compat.h - functions of newer glibc versions that test programs use, for glibc before 2.34. */
#pragma once

#include <features.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#if !__GLIBC_PREREQ(2, 34)
static inline int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
    return (int)syscall(SYS_execveat, dir, path, argv, envp, flags);
}

static inline void closefrom(int first)
{
    syscall(SYS_close_range, first, ~0u, 0u);
}
#endif

#if !__GLIBC_PREREQ(2, 32)
static inline const char *strerrorname_np(int code)
{
    return NULL;
}
#endif
