/* SPDX-License-Identifier: MIT */
/*
 * attach.c - the beginning: is there a Python in this process, and what of it is wanted (`python=`)?
 */
#include "python.h"

#include <errno.h>
#include <stdio.h>

/*
 * Where there is no Python, the loader leaves this NULL. A search by dlsym that finds nothing allocates its error text,
 * and the program's malloc may not be ready for a call, or be none that free understands.
 */
extern const char *Py_GetVersion(void) __attribute__((weak));

void dp_python_attach(void)
{
    int mode = deltaprof_python_wanted();
    const char *version = "";
    if (!Py_GetVersion)
        return;
    if (mode != DELTAPROF_PYTHON_AUTO && mode != DELTAPROF_PYTHON_FRAMES)
        return;
    int err = dp_python_find(&version);
    if (err == -ENOTSUP) {
        char line[256];
        snprintf(line, sizeof line, "python=: Python %.60s is not known here: its functions are not named", version);
        deltaprof_say(line);
    }
    if (err)
        return;
    deltaprof_frames_provide(dp_python_frames, NULL);
    if (mode == DELTAPROF_PYTHON_AUTO)
        dp_python_wrap_allocator();
}
