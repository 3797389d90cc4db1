/* SPDX-License-Identifier: MIT */
/*
 * fuzz_top.c - fuzzes `deltaprof top` with any bytes as profiles, through the whole command: files, merge, count,
 * names, and the text for a terminal.
 *
 * The input is: flags, the length of the first profile (2 bytes), then that profile, then the second one. The command
 * must end with 0 or 1, print a reason if it is 1, write no control character, and free all memory.
 */
#include "tool/cli/cli.h"
#include "tool/query/files.h"
#include "tool/query/print.h"
#include "written.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TWO = 1, TYPED = 2, LABELED = 4, ALL = 8, NO_NAMES = 16 };

static char directory[] = "/dev/shm/fuzz_top.XXXXXX";

/* In place of that of main.c. */
bool dp_cli_help(int argc, char **argv, const char *text)
{
    return false;
}

static void leave(void)
{
    CHECK(!rmdir(directory));
}

static void put(char path[64], const char *name, const uint8_t *bytes, size_t n)
{
    snprintf(path, 64, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && !close(fd));
}

static bool is_clean(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)text[i] < 32 && text[i] != '\n') || text[i] == 127)
            return false;
    return true;
}

static size_t n_lines(const char *text, size_t n)
{
    size_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    static bool begun;
    if (!begun) {
        CHECK(mkdtemp(directory) && !atexit(leave));
        begun = true;
    }
    unsigned flags = data[0];
    size_t n_first = (size_t)data[1] | (size_t)data[2] << 8;
    n_first = n_first < size - 3 ? n_first : size - 3;
    char first[64], second[64];
    put(first, flags & NO_NAMES ? "first" : "a.1.0001.heap.pb.gz", data + 3, n_first);
    put(second, flags & NO_NAMES ? "second" : "a.1.0002.heap.pb.gz", data + 3 + n_first, size - 3 - n_first);

    char *argv[16] = {"top", "--limit", "4M"};
    int argc = 3;
    const struct {
        unsigned flag;
        const char *words[2];
    } options[] = {{TYPED, {"--type", "inuse_space"}}, {LABELED, {"--label", "a=b"}}, {ALL, {"-n", "0"}}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (size_t j = 0; j < 2 && flags & options[i].flag; j++)
            argv[argc++] = (char *)options[i].words[j];
    argv[argc++] = first;
    if (flags & TWO)
        argv[argc++] = second;

    char *text = NULL, *why = NULL;
    size_t n_text = 0, n_why = 0;
    FILE *terminal = stdout, *errors = stderr;
    stdout = open_memstream(&text, &n_text);
    stderr = open_memstream(&why, &n_why);
    CHECK(stdout && stderr);
    optind = 0;                                                /* getopt starts anew */
    int status = dp_query_end_command(dp_cli_top(argc, argv)); /* as main.c */
    fclose(stdout);
    fclose(stderr);
    stdout = terminal;
    stderr = errors;
    /* One line for each broken file. If only one of two is broken, a line says that the other is shown, or why not. */
    size_t n_said = n_lines(why, n_why), most = flags & TWO ? 3 : 1;
    CHECK(status == 0
              ? !n_why && n_text
              : status == DP_EXIT_FAILED && (n_text ? flags & TWO && n_said == 2 : n_said >= 1 && n_said <= most));
    CHECK(is_clean(text, n_text) && is_clean(why, n_why));
    free(text);
    free(why);
    CHECK(!unlink(first) && !unlink(second));
    CHECK(dp_mem_used() == 0);
    return 0;
}
