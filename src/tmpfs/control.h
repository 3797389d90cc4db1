/* SPDX-License-Identifier: MIT */
/*
 * tmpfs/control.h - the control file, through which a command reaches a process that is off, or was: `deltaprof on
 * PID` writes the command into a slot of the file and changes a word of it; the process finds the word changed.
 *
 * Each user has one such file: `control` in the user's directory (table_place.h). It is sparse, and has the same length
 * for ever. Its layout is
 *
 *     magic | word 0 | word 1 | ... | padding to a page | slot 0 | slot 1 | ...
 *
 * A process looks at the word that its pid selects. So it needs no slot of its own, and most commands for other
 * processes do not concern it.
 *
 * The mapping may lose its pages at any time: a program can truncate the file, or the tmpfs can be full. So no
 * instruction of the process reads or writes the mapping. The kernel does, in system calls that fail with EFAULT where
 * an access by the process would raise SIGBUS.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DP_CONTROL_NAME "control"

#define DP_CONTROL_MAGIC      "deltaprof control 1"
#define DP_CONTROL_SLOTS      64u
#define DP_CONTROL_WORDS      1016u
#define DP_CONTROL_TEXT       1400u
#define DP_CONTROL_ANSWER     512u
#define DP_CONTROL_HEAD_BYTES 4096u /* of the file, before the slots; not a page of the kernel */

/* A command for one process, and its answer. The command is complete if `check` is its fingerprint. */
struct dp_control_slot {
    uint32_t pid;   /* as the process itself knows it; 0: the slot is free */
    uint32_t seq;   /* of the command; it grows with each */
    uint64_t start; /* when the process began, in clock ticks since boot */
    char command[DP_CONTROL_TEXT];
    uint64_t check;    /* fingerprint of all that stands before it */
    uint32_t answered; /* seq of the command that was answered last */
    int32_t err;       /* 0, or a negative errno: then answer says what is wrong */
    char answer[DP_CONTROL_ANSWER];
    char unused[104];
};
_Static_assert(sizeof(struct dp_control_slot) == 2048, "a slot is as long as in every other build");

struct dp_control_file {
    char magic[32];
    _Atomic uint32_t words[DP_CONTROL_WORDS];
    struct dp_control_slot slots[DP_CONTROL_SLOTS];
};
_Static_assert(offsetof(struct dp_control_file, slots) == DP_CONTROL_HEAD_BYTES, "slots begin behind the words");

uint64_t dp_control_check(const struct dp_control_slot *slot);

/*
 * Opens the calling user's file, and creates it and its directory if they are missing. Returns a descriptor or a
 * negative errno: -ENOTSUP: there is no tmpfs; -EPERM: another user owns the directory or the file, or others may
 * write it; -EFBIG: RLIMIT_FSIZE; -EPROTO: it has another layout. Context: init.
 */
int dp_control_open(void);

/* Gives a file of length 0 its length and its magic. 0, also for any other length; -EFBIG; or another negative errno.
 */
int dp_control_fill(int fd);

/* Checks owner, rights and layout of an open file. 0, or as above. */
int dp_control_verify(int fd, uid_t owner);

/* Maps the file. NULL: no address space. To be read by the functions below only. */
struct dp_control_file *dp_control_map(int fd);

/*
 * Whether the word of this pid differs from `seen`. One system call that compares in the kernel. False if the page is
 * gone. Async-signal-safe; keeps errno.
 */
bool dp_control_is_changed(struct dp_control_file *file, pid_t pid, uint32_t seen);

/* The word of this pid, or `seen` if its page is gone. */
uint32_t dp_control_word(struct dp_control_file *file, pid_t pid, uint32_t seen);

/* The offset of the word of this pid. */
static inline size_t dp_control_word_at(pid_t pid)
{
    return offsetof(struct dp_control_file, words) + (uint32_t)pid % DP_CONTROL_WORDS * sizeof(uint32_t);
}

/* Copies at most 2,048 bytes from or into the mapping. -EFAULT: its pages are gone; or another negative errno. */
int dp_control_copy(void *to, const void *from, size_t n_bytes);
