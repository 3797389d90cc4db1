/* SPDX-License-Identifier: MIT */
/*
 * attach.c - finds out whether this process has a Python, and installs the parts that `python=` asks for.
 */
#include "python.h"

#include <errno.h>
#include <stdio.h>

int deltaprof_python_attach(void)
{
    static bool attached;
    int mode = deltaprof_python_wanted();
    const char *version = "";
    if (mode != DELTAPROF_PYTHON_AUTO && mode != DELTAPROF_PYTHON_FRAMES)
        return -ENOENT;
    if (attached)
        return dp_python.minor ? 0 : -ENOTSUP;
    int err = dp_python_find(&version);
    attached = err != -ENOENT;
    if (err == -ENOTSUP) {
        char line[256];
        snprintf(line, sizeof line, "python=: Python %.60s is not known here: its functions are not named", version);
        deltaprof_say(line);
    }
    if (err)
        return err;
    deltaprof_frames_provide(dp_python_frames, NULL);
    if (mode == DELTAPROF_PYTHON_AUTO)
        dp_python_wrap_allocator();
    return 0;
}
