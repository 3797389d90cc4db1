/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/live.c - puts directories in the place of process ids. A verb that reads PATH... needs to know nothing of
 * living processes.
 */
#include "tool/cli/live.h"

#include "tool/cli/cli.h"
#include "tool/cli/options.h"
#include "tool/cli/other_users.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/recover/live.h"
#include "tool/recover/living.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIRECTORIES_MOST = 16 };

static char directories[DIRECTORIES_MOST][PATH_MAX];
static int n_directories;

static void delete_directory(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

void dp_cli_live_end(void)
{
    while (n_directories > 0)
        delete_directory(directories[--n_directories]);
}

enum { FOUND, NO_TABLES, UNREADABLE };

/* Writes the profiles of the process to the directory. With UNREADABLE, the reason was printed. */
static int read_process(const char *verb, pid_t pid, const char *path)
{
    struct dp_recover_list list;
    char why[DP_RECOVER_WHY] = "";
    const struct dp_recover_table *table = dp_recover_list(NULL, &list, why) ? NULL : dp_recover_find(&list, pid);
    int result = !table ? NO_TABLES : dp_recover_live(list.directory, table, path, why) ? UNREADABLE : FOUND;
    if (result == UNREADABLE)
        dp_query_print_error(verb, "%s", why);
    dp_recover_list_fini(&list);
    return result;
}

/* For root: the tables of another user's process are read as that user, who may write anything there. */
static int read_as_its_user(const char *verb, pid_t pid, const char *path)
{
    uid_t user;
    gid_t group;
    int status = 0;
    if (geteuid() || !dp_recover_living_user(pid, &user, &group) || !user || chown(path, user, group))
        return NO_TABLES;
    pid_t child = fork();
    if (child == 0)
        _exit(dp_recover_become_user(user, group) ? NO_TABLES : read_process(verb, pid, path));
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : NO_TABLES;
}

int dp_cli_live_replace(const char *verb, char **word, pid_t pid)
{
    const char *temporary = getenv("TMPDIR");
    if (n_directories == DIRECTORIES_MOST)
        return 1;
    char *path = directories[n_directories];
    snprintf(path, PATH_MAX, "%s/deltaprof.XXXXXX", temporary && *temporary == '/' ? temporary : "/tmp");
    if (!mkdtemp(path)) {
        dp_query_print_error(verb, "%s: %s", path, strerror(errno));
        return -DP_EXIT_FAILED;
    }
    n_directories++;
    int result = read_process(verb, pid, path);
    if (result == NO_TABLES)
        result = read_as_its_user(verb, pid, path);
    if (result == NO_TABLES)
        return 1;
    dp_query_print_replaced(path, *word);
    *word = path;
    return result == FOUND ? 0 : -DP_EXIT_FAILED;
}

/* Delivers the killed processes that write here; failures are told by `deltaprof recover`. */
static void deliver(const char *path)
{
    struct stat st;
    if (stat(path, &st) || !S_ISDIR(st.st_mode))
        return;
    dp_recover_all(NULL, path, NULL);
    dp_cli_other_users_deliver(path);
}

void dp_cli_live_deliver(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-')
            deliver(argv[i]);
}

int dp_cli_live_begin(const char *verb, char **words, int n)
{
    for (int i = 0; i < n; i++) {
        pid_t pid = dp_cli_options_pid(words[i]);
        if (!pid && words[i][0] != '-')
            deliver(words[i]);
        int result = pid ? dp_cli_live_replace(verb, &words[i], pid) : 0;
        if (result < 0)
            return -result;
        if (result && strcmp(verb, "summary")) {
            dp_query_print_error(
                verb, "%d: no file, and no profiled process of this user with tables (deltaprof ps lists them)",
                (int)pid);
            return DP_EXIT_FAILED;
        }
    }
    return 0;
}
