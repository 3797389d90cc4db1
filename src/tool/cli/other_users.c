/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/other_users.c - reads the tables of other users, each in a child process that has become that user: a user
 * may write anything in a directory of his own. Directories elsewhere than in /dev/shm are in sessions of users, who
 * list them themselves.
 *
 * A server that starts as root makes the directory of its profiles; its workers run as another user and cannot write
 * there. A summary of that directory would be that of the master alone, so it says who is missing. As soon as they may
 * write, those that live do so at their next tick, and what others left in their tables is delivered.
 */
#include "tool/cli/other_users.h"

#include "tool/recover/living.h"
#include "tool/recover/recover.h"
#include "tool/summary/sentence_parts.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAMED_MOST = 3 };

void dp_cli_other_users_each(dp_cli_other_users_fn fn, void *ctx)
{
    DIR *dir = geteuid() ? NULL : opendir("/dev/shm");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        unsigned user;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "/dev/shm/%s", entry->d_name);
        if (sscanf(entry->d_name, DP_TABLES_DIRECTORY "%u", &user) != 1 || !user || lstat(path, &st) ||
            !S_ISDIR(st.st_mode) || st.st_uid != user)
            continue;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (!dp_recover_become_user(st.st_uid, st.st_gid))
                fn(path, ctx);
            fflush(stdout);
            _exit(0);
        }
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (dir)
        closedir(dir);
}

static void deliver(const char *directory, void *out)
{
    if (!access(out, W_OK))
        dp_recover_all(directory, out, NULL);
}

void dp_cli_other_users_deliver(const char *out)
{
    dp_cli_other_users_each(deliver, (void *)out);
}

struct unwritten {
    char out[PATH_MAX]; /* the directory of profiles; "": of any */
    pid_t pid;          /* 0: of any process */
    FILE *lines;        /* "PID PROGRAM" of each process that cannot write there, or its directory instead of PROGRAM */
};

static bool is_out(const char *out, const char *wanted)
{
    char real[PATH_MAX];
    return !strcmp(out, wanted) || (*out && realpath(out, real) && !strcmp(real, wanted));
}

static void list_unwritten(const char *directory, void *ctx)
{
    struct unwritten *unwritten = ctx;
    struct dp_recover_list list;
    char why[DP_RECOVER_WHY];
    if ((*unwritten->out && !access(unwritten->out, W_OK)) || dp_recover_list(directory, &list, why))
        return;
    for (size_t i = 0; i < list.n; i++) {
        const struct dp_recover_table *t = &list.at[i];
        bool is_known = t->state == DP_RECOVER_LIVES || t->state == DP_RECOVER_ENDED;
        if (unwritten->pid && t->pid == unwritten->pid && *t->out && !t->is_written_outside && access(t->out, W_OK))
            fprintf(unwritten->lines, "%d %s\n", (int)t->pid, t->out);
        else if (!unwritten->pid && is_known && !t->is_written_outside && is_out(t->out, unwritten->out))
            fprintf(unwritten->lines, "%d %s\n", (int)t->pid, t->program);
    }
    fflush(unwritten->lines);
    dp_recover_list_fini(&list);
}

/* The names of the first processes, and how many there are. */
static size_t read_names(FILE *lines, char *names, size_t n_names)
{
    char line[128], program[65];
    size_t n_processes = 0, n = 0;
    int pid;
    rewind(lines);
    while (fgets(line, sizeof line, lines)) {
        if (sscanf(line, "%d %64[^\n]", &pid, program) == 2 && n_processes++ < NAMED_MOST)
            n += (size_t)snprintf(names + n, n_names - n, "%s%s %d", n ? ", " : "", program, pid);
    }
    if (n_processes > NAMED_MOST)
        snprintf(names + n, n_names - n, " and %zu more", n_processes - NAMED_MOST);
    return n_processes;
}

void dp_cli_other_users_say(struct dp_summary_sentences *s, char **paths, int n)
{
    for (int i = 0; i < n && !geteuid(); i++) {
        struct stat st;
        struct unwritten unwritten = {.lines = NULL};
        char names[400];
        if (stat(paths[i], &st) || !S_ISDIR(st.st_mode) || !realpath(paths[i], unwritten.out) ||
            !(unwritten.lines = tmpfile()))
            continue;
        dp_cli_other_users_each(list_unwritten, &unwritten);
        size_t n_processes = read_names(unwritten.lines, names, sizeof names);
        struct dp_summary_sentence *to = n_processes ? dp_summary_sentences_add(s, "missing", 4) : NULL;
        if (to)
            snprintf(
                to->text, sizeof to->text,
                "Missing: %zu process%s (%s) of another user, which cannot write here: chmod 1777 %.200s, then look "
                "again; deltaprof PID shows one that lives.",
                n_processes, n_processes == 1 ? "" : "es", names, paths[i]);
        fclose(unwritten.lines);
    }
}

void dp_cli_other_users_say_of(struct dp_summary_sentences *s, pid_t pid)
{
    struct unwritten unwritten = {.pid = pid, .lines = tmpfile()};
    char line[PATH_MAX + 32] = "";
    if (!unwritten.lines)
        return;
    dp_cli_other_users_each(list_unwritten, &unwritten);
    rewind(unwritten.lines);
    char *out = fgets(line, sizeof line, unwritten.lines) ? strchr(line, ' ') : NULL;
    struct dp_summary_sentence *to = out ? dp_summary_sentences_add(s, "missing", 4) : NULL;
    if (to) {
        out[strcspn(out, "\n")] = '\0';
        snprintf(
            to->text, sizeof to->text,
            "Missing: the ticks of process %d, whose user cannot write in%.300s: chmod 1777%.300s, then look again. "
            "What follows is of now and since its start.",
            (int)pid, out, out);
    }
    fclose(unwritten.lines);
}
