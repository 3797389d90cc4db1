/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/live.c - puts directories in the place of process ids. A verb that reads PATH... needs to know nothing of
 * living processes.
 */
#include "tool/cli/live.h"

#include "tool/cli/cli.h"
#include "tool/cli/options.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/recover/live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* Replaces the word. 1: the process has no tables. */
static int replace(const char *verb, char **word, pid_t pid)
{
    struct dp_recover_list list;
    char why[DP_RECOVER_WHY] = "";
    const char *temporary = getenv("TMPDIR");
    int status = dp_recover_list(NULL, &list, why) ? 1 : 0;
    const struct dp_recover_table *table = status ? NULL : dp_recover_find(&list, pid);
    if (!table || n_directories == DIRECTORIES_MOST) {
        dp_recover_list_fini(&list);
        return 1;
    }
    char *path = directories[n_directories];
    snprintf(path, PATH_MAX, "%s/deltaprof.XXXXXX", temporary && *temporary == '/' ? temporary : "/tmp");
    if (!mkdtemp(path)) {
        dp_query_print_error(verb, "%s: %s", path, strerror(errno));
        status = DP_EXIT_FAILED;
    } else {
        n_directories++;
        if (dp_recover_live(list.directory, table, path, why)) {
            dp_query_print_error(verb, "%s", why);
            status = DP_EXIT_FAILED;
        }
        dp_query_print_replaced(path, *word);
        *word = path;
    }
    dp_recover_list_fini(&list);
    return status ? -status : 0;
}

/* Delivers the killed processes that write here; failures are told by `deltaprof recover`. */
static void deliver(const char *path)
{
    struct stat st;
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        dp_recover_all(NULL, path, NULL);
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
        int result = pid ? replace(verb, &words[i], pid) : 0;
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
