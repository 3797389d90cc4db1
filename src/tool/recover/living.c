/* SPDX-License-Identifier: MIT */
/* tool/recover/living.c - looks at the threads of a process. */
#include "tool/recover/living.h"

#include "base/process.h"

#include <dirent.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

bool dp_recover_living_user(pid_t pid, uid_t *user, gid_t *group)
{
    char path[64], line[256];
    unsigned id, n = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Uid: %*u %u", &id) == 1)
            *user = id, n++;
        else if (sscanf(line, "Gid: %*u %u", &id) == 1)
            *group = id, n++;
    if (file)
        fclose(file);
    return n == 2;
}

int dp_recover_become_user(uid_t user, gid_t group)
{
    char runtime[64];
    snprintf(runtime, sizeof runtime, "/run/user/%u", (unsigned)user); /* of a session of that user, if there is one */
    return setgroups(0, NULL) || setgid(group) || setuid(user) || setenv("XDG_RUNTIME_DIR", runtime, 1) ? -1 : 0;
}
