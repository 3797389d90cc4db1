/* SPDX-License-Identifier: MIT */
/* make_last.h - the block that the driver looks for, and others: both functions are in the profiles. */
#pragma once

#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

static void *held;

NOINLINE void make_last(void)
{
    held = malloc(1234);
}

NOINLINE void *make_again(void)
{
    void *ptr = malloc(100);
    __asm__ volatile("" ::"r"(ptr) : "memory");
    return ptr;
}
