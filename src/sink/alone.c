/* SPDX-License-Identifier: MIT */
/*
 * sink/alone.c - reads /proc/self/stat: the state of the main thread, and the number of threads.
 *
 * A main thread that has left is a zombie, and counts. A thread of the profiler that just begins, or ends, is counted
 * by the kernel but not here; then there seems to be one thread more, and the next look decides. So a thread of the
 * program is never overlooked. Without /proc (in a chroot) that is not known, so the profiler's threads end as
 * soon as main has left: the process must end. All accesses are relaxed: they are numbers, and publish nothing.
 */
#include "sink/alone.h"

#include "base/atomic.h"
#include "base/text.h"
#include "sink/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static _Atomic uint32_t n_ours;
static _Atomic bool main_left;

void dp_alone_thread_begins(void)
{
    dp_add_relaxed(&n_ours, 1);
}

void dp_alone_thread_ends(void)
{
    dp_sub_relaxed(&n_ours, 1);
}

void dp_alone_main_exits(void)
{
    dp_store_relaxed(&main_left, true);
}

bool dp_alone_has_main_exited(void)
{
    return dp_load_relaxed(&main_left);
}

bool dp_alone_is(void)
{
    char text[512], alone[16];
    int fd = dp_file_out_of_the_way(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
    if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOMEM)
        return dp_alone_has_main_exited();
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *p = strrchr(text, ')'); /* behind the name, which may contain any bytes */
    if (!p || p[1] != ' ' || p[2] != 'Z')
        return false;
    dp_alone_main_exits();
    p += 2; /* field 3 */
    for (int field = 3; p && field < 20; field++)
        p = strchr(p + 1, ' ');
    size_t n_alone = dp_text_format(alone, sizeof alone, " %u ", (unsigned)dp_load_relaxed(&n_ours) + 1);
    return p && strncmp(p, alone, n_alone) == 0;
}

void dp_alone_fork_child(void)
{
    dp_store_relaxed(&n_ours, 0);
    dp_store_relaxed(&main_left, false);
}
