/* SPDX-License-Identifier: MIT */
/*
 * outside.h - reads the tables of another process, which its library left in a file (key `tables`). For the command
 * deltaprof, which finds the library of the same build: this interface changes with any version. A process reads the
 * tables of one other process, by one thread.
 */
#pragma once

#include <deltaprof/deltaprof.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum deltaprof_outside_flags {
    DELTAPROF_OUTSIDE_SINCE_START = 1, /* or: since the profile that the process wrote last */
    DELTAPROF_OUTSIDE_SINCE_LAST = 2,  /* since the last profile that was written with this flag; first since start */
    DELTAPROF_OUTSIDE_KILLED = 4,      /* the comments #ended and #killed */
    DELTAPROF_OUTSIDE_SKIP_EMPTY = 8,  /* without a row: returns 1 */
    DELTAPROF_OUTSIDE_RAW = 16,        /* not compressed */
    DELTAPROF_OUTSIDE_ENDED = 32,      /* the comment #ended */
    DELTAPROF_OUTSIDE_OWN = 64,        /* without memory that was inherited from the parent process */
};

/* Facts about a written profile. */
struct deltaprof_outside_profile {
    int64_t from_ns, to_ns; /* ns of Unix time */
    uint64_t n_rows;
    int64_t inuse_bytes; /* of a heap profile; else -1 */
    int64_t worst_ns;    /* of a profile of waits: the largest delay of a row */
};

struct deltaprof_outside {
    unsigned version;
    /*
     * Copies the tables from the file; again: copies what they have become. proc: "/proc/PID" of a living process,
     * "/proc/0" if this process cannot see it, as in another pid namespace, "" of one that has ended. written: whether
     * a file NAME of a profile exists in the directory of the process's files, which tells which of two kept states is
     * valid. Returns 0; or a negative errno with the reason in why: -ENOEXEC it is no file of tables, -ESTALE another
     * build's, -EBADMSG it is damaged.
     */
    int (*adopt)(int fd, const char *proc, bool (*written)(void *ctx, unsigned kind, uint32_t seq), void *ctx,
                 char *why, size_t n_why);
    /* Writes a profile of kind (enum deltaprof_kind) through fn. Returns 0; 1: no row; or a negative errno. */
    int (*write)(unsigned kind, unsigned flags, deltaprof_write_fn fn, void *ctx,
                 struct deltaprof_outside_profile *profile);
    /*
     * Where files of a process are written from outside: each of its events is in one file, also if the writer is
     * killed. `keep`, between a write without SINCE_* and the moment at which its file gets the name with number seq,
     * stores in the tables how far that profile goes; seq is above `highest`, the last number that was stored. It holds
     * if that file exists, or once `kept` was called. fd: the file of the tables, open for writing; one process at a
     * time. 0 or a negative errno.
     */
    int (*keep)(int fd, unsigned kind, uint32_t seq);
    int (*kept)(int fd, unsigned kind);
    uint32_t (*highest)(void);
    /* Writes the waits under way in a living process as text, as its page `waits`. 0 or a negative errno. */
    int (*waits)(deltaprof_write_fn fn, void *ctx);
    /*
     * Makes what `written` told the valid state, whether those files stay or not: from here on the files of the process
     * are written to another directory. After adopt; with fd and errors as for keep.
     */
    int (*settle)(int fd);
};

DELTAPROF_API const struct deltaprof_outside *deltaprof_outside(void);

#ifdef __cplusplus
}
#endif
