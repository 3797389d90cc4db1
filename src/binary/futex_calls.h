/* SPDX-License-Identifier: MIT */
/* binary/futex_calls.h - finds out whether a program makes futex calls without libc. */
#pragma once

#include <stdbool.h>

/* Whether code of this ELF file enters the kernel for a futex itself. False too if the file cannot be read. */
bool dp_binary_makes_futex_calls(const char *path);
