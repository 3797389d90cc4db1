/* SPDX-License-Identifier: MIT */
/* cli/program.h - finds the file of COMMAND, and checks whether a preload can work in it. */
#pragma once

#include "cli/binary.h"

#include <limits.h>
#include <stddef.h>

struct dp_program {
    char path[PATH_MAX];   /* the file that is executed */
    bool by_shell;         /* a script without #!: /bin/sh runs it, as execvp has it */
    char binary[PATH_MAX]; /* the ELF file at the end of all #! */
    struct dp_binary elf;  /* of binary; all zero where it may not be read */
};

#define DP_PROGRAM_ABSENT  127 /* no such command */
#define DP_PROGRAM_REFUSED 126 /* it exists, but cannot be run, or not with a preload */

/* 0 and program filled, or one of the exit statuses above with the reason in why. */
int dp_program_find(struct dp_program *program, const char *command, char *why, size_t n_why);
