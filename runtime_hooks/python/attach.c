/* SPDX-License-Identifier: MIT */
/*
 * attach.c - finds out whether this process has a Python, and installs the parts that `python=` asks for.
 */
#include "python.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the parent is a profiled process of the same program. Then it has said what there is to say. */
static bool is_spawned(void)
{
    char path[64], line[512];
    struct stat own, parent;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)getppid());
    if (stat("/proc/self/exe", &own) || stat(path, &parent) || own.st_dev != parent.st_dev ||
        own.st_ino != parent.st_ino)
        return false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)getppid());
    FILE *maps = fopen(path, "re");
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, "/libdeltaprof") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

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
    if (err == -ENOTSUP && !is_spawned()) {
        char line[256];
        snprintf(line, sizeof line, "python=: Python %.60s is not known here: its functions are not named", version);
        deltaprof_say(line);
    }
    if (err)
        return err;
    deltaprof_frames_provide_anywhere(dp_python_frames, NULL);
    dp_python_provide_waiting();
    dp_python_watch_forks();
    /* The objects of a free-threaded build must lie in its own heaps, where its garbage collector finds them. */
    if (mode == DELTAPROF_PYTHON_AUTO && !dp_python.free_threaded)
        dp_python_wrap_allocator();
    return 0;
}
