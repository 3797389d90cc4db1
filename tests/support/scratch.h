/* SPDX-License-Identifier: MIT */
/* tests/support/scratch.h - makes a directory for one test under /tmp; the test removes it. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes it, 0700, under a name that begins with `name`, and writes its path. 0, or -1. */
static inline int scratch_directory(char *path, size_t room, const char *name)
{
    for (unsigned n = 0;; n++) {
        int length = snprintf(path, room, "/tmp/deltaprof-%s-%d-%u", name, (int)getpid(), n);
        if (length < 0 || (size_t)length >= room)
            return -1;
        if (mkdir(path, 0700) == 0)
            return 0;
        if (errno != EEXIST)
            return -1;
    }
}
