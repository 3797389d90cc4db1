/* SPDX-License-Identifier: MIT */
/* tool/run/program.h - finds the file of COMMAND, and checks whether a preload can work in it. */
#pragma once

#include "binary/binary.h"

#include <limits.h>
#include <stddef.h>

struct dp_run_program {
    char path[PATH_MAX];   /* the file that is executed */
    bool by_shell;         /* a script without #!: /bin/sh runs it, as execvp has it */
    char binary[PATH_MAX]; /* the ELF file at the end of all #! */
    struct dp_binary elf;  /* of binary; all zero where it may not be read */
    bool is_musl;          /* binary needs musl, not glibc */
};

#define DP_LAUNCH_ABSENT  127 /* no such command */
#define DP_LAUNCH_REFUSED 126 /* it exists, but cannot be run, or not with a preload */

/* 0 and program filled, or one of the exit statuses above with the reason in why. */
int dp_run_program_find(struct dp_run_program *program, const char *command, char *why, size_t n_why);
