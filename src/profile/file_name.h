/* SPDX-License-Identifier: MIT */
/*
 * profile/file_name.h - names of profile files: PROGRAM.PID.SEQ.KIND.pb.gz, and .PROGRAM.PID.KIND.HEX.tmp while a file
 * is written. SEQ has at least four digits. The functions make no system call and use no memory of their own: they may
 * run in a crash handler.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DP_PROFILE_SUFFIX    ".pb.gz"
#define DP_PROFILE_NO_SAMPLE ".no-sample" /* why the last program had no sample: PROGRAM: TEXT */
#define DP_PROFILE_NAME_MAX  192          /* bytes of a name that is made here, with its NUL */

struct dp_profile_name {
    const char *program; /* in the path: behind its last slash */
    size_t n_program;    /* bytes of PROGRAM */
    size_t n_process;    /* bytes of PROGRAM.PID */
    uint64_t pid, seq;   /* UINT64_MAX: larger */
    const char *kind;    /* in the path: KIND and the suffix */
    size_t n_kind;
    unsigned kind_id; /* enum dp_kind_id; DP_KINDS: no kind of this version */
};

/* Takes the name at the end of a path apart. False: it has another form. */
bool dp_profile_name_parse(const char *path, struct dp_profile_name *);
/* Returns the length. */
size_t dp_profile_name_format(char name[DP_PROFILE_NAME_MAX], const char *program, int pid, uint32_t seq,
                              unsigned kind);

/* The PID in the name of a file that is being written; 0: another name. */
uint64_t dp_profile_name_temporary_pid(const char *name);
size_t dp_profile_name_format_temporary(char name[DP_PROFILE_NAME_MAX], const char *program, int pid, unsigned kind,
                                        uint64_t number);
