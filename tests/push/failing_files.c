/* SPDX-License-Identifier: MIT */
/*
 * failing_files.c - makes the directory functions of libc fail for deltaprof push, as a disk or a file server would. To
 * be preloaded. While the file that FAILING names exists, its text says which call fails with EIO:
 *
 *     readdir N      the Nth entry of a directory, and each one after it
 *     fstatat NAME   the file of that name
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EXPORT __attribute__((visibility("default")))

/* Whether calls of the function fail now; argument: the text behind its name. */
static bool fails(const char *function, char argument[300])
{
    char name[32] = "";
    const char *path = getenv("FAILING");
    int before = errno;
    FILE *file = path ? fopen(path, "re") : NULL;
    errno = before; /* readdir tells its end from a failure by errno */
    if (!file)
        return false;
    int n = fscanf(file, "%31s %299s", name, argument);
    fclose(file);
    return n == 2 && !strcmp(name, function);
}

EXPORT struct dirent *readdir(DIR *dir)
{
    static struct dirent *(*next)(DIR *);
    static DIR *last;
    static int n;
    char most[300];
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "readdir64");
    n = dir == last ? n + 1 : 1;
    last = dir;
    if (fails("readdir", most) && n >= atoi(most)) {
        last = NULL;
        errno = EIO;
        return NULL;
    }
    struct dirent *entry = next(dir);
    last = entry ? dir : NULL;
    return entry;
}

EXPORT int fstatat(int fd, const char *name, struct stat *st, int flags)
{
    static int (*next)(int, const char *, struct stat *, int);
    char which[300];
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "fstatat64");
    if (fails("fstatat", which) && !strcmp(name, which)) {
        errno = EIO;
        return -1;
    }
    return next(fd, name, st, flags);
}
