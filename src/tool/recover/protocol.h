/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/protocol.h - what a reader's process and its parent say to each other over a socket.
 *
 *     parent   struct dp_recover_question
 *     reader   {n_bytes, bytes}..., {0}, struct dp_recover_answer
 */
#pragma once

#include "tool/recover/recover.h"

#define DP_RECOVER_FD_SOCKET 3
#define DP_RECOVER_FD_TABLE  4

enum dp_recover_what {
    DP_RECOVER_COPY,
    DP_RECOVER_WRITE,
    DP_RECOVER_KEEP,
    DP_RECOVER_KEPT,
    DP_RECOVER_SETTLE,
    DP_RECOVER_WAITS
};

struct dp_recover_question {
    uint32_t what; /* enum dp_recover_what */
    uint32_t kind, flags, seq;
};

struct dp_recover_answer {
    int32_t err;
    uint32_t highest; /* SEQ that the tables name */
    struct deltaprof_outside_profile profile;
    char why[DP_RECOVER_WHY];
};

/* Whole reads and writes. False: the other side is gone. */
bool dp_recover_receive(int fd, void *bytes, size_t n_bytes);
bool dp_recover_send(int fd, const void *bytes, size_t n_bytes);
