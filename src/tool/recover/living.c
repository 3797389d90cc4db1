/* SPDX-License-Identifier: MIT */
/* tool/recover/living.c - looks at the threads of a process. */
#include "tool/recover/living.h"

#include "base/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t dp_recover_living(pid_t pid, pid_t *thread)
{
    char path[64], state = 'X';
    uint64_t start = dp_process_began(pid, pid, &state);
    pid_t living = start && state != 'Z' ? pid : 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *task = start && !living ? opendir(path) : NULL;
    for (struct dirent *entry; task && !living && (entry = readdir(task));) {
        pid_t other = (pid_t)atoi(entry->d_name);
        if (other > 0 && dp_process_began(pid, other, &state) && state != 'Z')
            living = other;
    }
    if (task)
        closedir(task);
    if (thread)
        *thread = living;
    return living ? start : 0;
}
