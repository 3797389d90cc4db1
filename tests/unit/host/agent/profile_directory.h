/* SPDX-License-Identifier: MIT */
/* profile_directory.h - for tests of the files of profiles: a scratch directory, ticks written to it, and its content.
 */
#pragma once

#include "support/unit.h"

#include "host/agent/profile_file.h"
#include "support/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char top[64];
static struct dp_agent_files files;

static int setup(void **state)
{
    return scratch_directory(top, sizeof top, "file");
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command);
}

/* A process of PID 42 that is called prog, in top/out. */
static void begin(const char *out, int64_t keep)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", top, out);
    assert_int_equal(dp_agent_files_init(&files, path, "prog", 42, keep), 0);
    assert_int_equal(dp_agent_files_make_directory(&files), 0);
}

static const char gzip_header[] = "\x1f\x8b\x08\0\0\0\0\0\0\xff";

static int write_one(const char *name, const char *text)
{
    struct dp_agent_file file = {.files = &files, .kind = dp_kind_named(name, strlen(name))};
    int err = dp_agent_file_write(&file, gzip_header, sizeof gzip_header - 1);
    if (!err)
        err = dp_agent_file_write(&file, text, strlen(text));
    if (err) {
        dp_agent_file_drop(&file);
        return err;
    }
    return dp_agent_file_keep(&file);
}

static void tick(const char *text)
{
    assert_int_equal(write_one("heap", text), 0);
    assert_int_equal(dp_agent_files_end(&files), 1);
}

static const char *path_of(const char *name)
{
    static char path[2048];
    snprintf(path, sizeof path, "%s/%s", files.dir, name);
    return path;
}

static bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static void holds(const char *name, const char *text)
{
    char got[64] = "";
    FILE *f = fopen(path_of(name), "r");
    if (!f)
        fail_msg("%s is not there", name);
    size_t n = fread(got, 1, sizeof got - 1, f), n_header = n ? DP_STAMP_HEADER_BYTES : 0;
    assert_int_equal(n, n_header + strlen(text));
    fclose(f);
    assert_string_equal(got + n_header, text);
}

static unsigned count(void)
{
    DIR *dir = opendir(files.dir);
    unsigned n = 0;
    for (struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static void make(const char *name)
{
    int fd = open(path_of(name), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}
