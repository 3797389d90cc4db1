/* SPDX-License-Identifier: MIT */
/*
 * tool/push/journal.h - records in the directory, for one receiver, which files were settled, which part was being
 * sent, and which files are set aside, because the receiver failed on them.
 *
 * A unit is a file, or several successive files of one kind, that are sent as one profile. It is sent in parts, usually
 * one. A part or file is settled when its outcome is known and it will not be sent again. Each change appends one line,
 * so that a pusher that was killed at any moment can be started again. One process owns a journal, by a lock on it.
 */
#pragma once

#include "base/mem.h"
#include "pprof/strings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dp_push_outcome {
    DP_PUSH_ACCEPTED,
    DP_PUSH_DOUBT,   /* a reply never came: perhaps delivered */
    DP_PUSH_REFUSED, /* the receiver will never take it */
    DP_PUSH_GONE,    /* deleted before it was sent */
    DP_PUSH_N_OUTCOMES,
};

/* The highest SEQ that was settled of a process. */
struct dp_push_seen {
    uint64_t stamp;
    unsigned long long seq;
};

struct dp_push_unit {
    struct dp_strings keys; /* of its files, from 1 on */
    size_t n_files;         /* 0: there is no unit */
    unsigned long long id;
    unsigned part;       /* the next part */
    bool is_sent;        /* part may have reached the receiver */
    bool in_doubt;       /* some part is in doubt */
    bool is_refused;     /* some part was refused */
    int64_t aside_ns;    /* CLOCK_REALTIME: when it was set aside for the first time; 0: never */
    uint64_t n_accepted; /* the number of accepted files at that time */
};

/* A unit on which the receiver failed. Other units are sent before it. */
struct dp_push_aside {
    struct dp_push_unit unit;
    int64_t tried_ns; /* CLOCK_REALTIME: when the receiver failed on it last */
    char why[200];    /* how, for people */
};

struct dp_push_journal {
    int fd, dir_fd;
    char name[64], target[1100];
    size_t n_bytes;          /* complete lines */
    size_t n_broken;         /* lines that were garbled: what they said of files is lost */
    int64_t broken_ns;       /* those files existed at this time */
    size_t n_compact;        /* bytes after the last compaction */
    struct dp_strings keys;  /* of settled files: "STAMP NAME" */
    DP_VEC(uint8_t) settled; /* by key */
    DP_VEC(struct dp_push_seen) seen;
    uint64_t counts[DP_PUSH_N_OUTCOMES]; /* files, since the journal began */
    unsigned long long last_id;          /* of all units */
    struct dp_push_unit unit;            /* the unit under way */
    DP_VEC(struct dp_push_aside) aside;
};

/*
 * Opens or makes the journal for that receiver, and reads it. Returns 0; -EWOULDBLOCK: another process owns it; or
 * another negative errno.
 */
int dp_push_journal_open(struct dp_push_journal *, int dir_fd, const char *target);
/* Reads the journal of that name, without a lock, and without changing it. 0 or a negative errno. */
int dp_push_journal_read(struct dp_push_journal *, int dir_fd, const char *name);
void dp_push_journal_close(struct dp_push_journal *);
/* Removes the file of a journal that is open and says of no file that it was settled, perhaps sent or set aside: so a
 * wrong URL leaves nothing. To be closed next. */
void dp_push_journal_remove_blank(struct dp_push_journal *);

/* The key of a file, in to. */
#define DP_PUSH_KEY_BYTES 300
void dp_push_journal_key(char to[DP_PUSH_KEY_BYTES], uint64_t stamp, const char *name);
bool dp_push_journal_is_settled(struct dp_push_journal *, uint64_t stamp, const char *name);
/* The highest settled SEQ of that process; 0: none. */
unsigned long long dp_push_journal_seen(const struct dp_push_journal *, uint64_t stamp);

/*
 * Each records a step and returns 0 or a negative errno. After an error the step may be missing in the journal, so the
 * caller must not do it.
 */
int dp_push_journal_begin(struct dp_push_journal *, const char *const *keys, size_t n_keys);
int dp_push_journal_sending(struct dp_push_journal *);                    /* before the last byte of a part leaves */
int dp_push_journal_back(struct dp_push_journal *);                       /* it was not delivered */
int dp_push_journal_part(struct dp_push_journal *, enum dp_push_outcome); /* a part was settled */
int dp_push_journal_done(struct dp_push_journal *, enum dp_push_outcome); /* so was the unit */
int dp_push_journal_undo(struct dp_push_journal *); /* no part was delivered: the files of the unit are pending again */
int dp_push_journal_gone(struct dp_push_journal *, const char *key); /* a file was deleted before it was sent */
/* Notes that all files which broken lines may have settled are settled now. */
int dp_push_journal_mended(struct dp_push_journal *);
/* Notes the files of ticks below seq, which were deleted before any of them was seen. */
int dp_push_journal_missed(struct dp_push_journal *, uint64_t stamp, unsigned long long seq, uint64_t n_files);

/*
 * Sets the unit under way aside. It keeps the parts that were settled. why: how the receiver failed. now_ns is of
 * CLOCK_REALTIME, so that it is of use to the next pusher.
 */
int dp_push_journal_aside(struct dp_push_journal *, int64_t now_ns, const char *why);
/* The unit that was set aside and whose last try is pause_ns or more ago; the one with the oldest try. -1: none. */
int dp_push_journal_due(const struct dp_push_journal *, int64_t now_ns, int64_t pause_ns);
/* That unit is under way again, from its next part on. */
int dp_push_journal_again(struct dp_push_journal *, int number);
/* Whether a unit that is set aside has that file. */
bool dp_push_journal_is_aside(const struct dp_push_journal *, const char *key);
/* Whether the file belongs to the unit under way, or to one of which a part was settled: it cannot be counted alone. */
bool dp_push_journal_holds(const struct dp_push_journal *, const char *key);

/* Rewrites a journal that has grown much, keeping only settled files that exist. */
typedef bool (*dp_push_exists_fn)(void *ctx, const char *key);
int dp_push_journal_compact(struct dp_push_journal *, dp_push_exists_fn exists, void *ctx);
