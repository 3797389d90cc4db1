/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/no_symbols.c - says in one line which package has the symbols of a stripped program, or where to fetch
 * them.
 *
 * On Debian and its relatives, dpkg's lists of files tell the package of a program; its symbols are in a package named
 * PACKAGE-dbgsym.
 */
#include "tool/summary/heading.h"
#include "tool/query/units.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FEWEST = 3 };
#define SHARE 0.1 /* of all frames: fewer unnamed ones matter little */

static bool has_line(const char *path, const char *const words[2])
{
    char line[PATH_MAX + 2];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        found = !strcmp(line, words[0]) || (words[1] && !strcmp(line, words[1]));
    }
    if (file)
        fclose(file);
    return found;
}

/* The package that has the file, in `package`; "": none, or there is no dpkg. */
static void find_package(const char *file, char package[128])
{
    static const char dir[] = "/var/lib/dpkg/info/", suffix[] = ".list";
    glob_t lists;
    const char *const names[] = {file, strncmp(file, "/usr/", 5) ? NULL : file + 4}; /* also /bin/x of /usr/bin/x */
    package[0] = '\0';
    if (glob("/var/lib/dpkg/info/*.list", GLOB_NOSORT, NULL, &lists))
        return;
    for (size_t i = 0; i < lists.gl_pathc && !*package; i++) {
        const char *name = lists.gl_pathv[i] + sizeof dir - 1;
        if (has_line(lists.gl_pathv[i], names))
            snprintf(package, 128, "%.*s", (int)strcspn(name, ":"), name);
    }
    size_t n = strlen(package), n_suffix = sizeof suffix - 1;
    if (n > n_suffix && !strcmp(package + n - n_suffix, suffix))
        package[n - n_suffix] = '\0';
    globfree(&lists);
}

bool dp_summary_heading_no_symbols(const struct dp_query *v, char *text, size_t n_bytes)
{
    const struct dp_query_naming_frames *f = &v->frames;
    const struct dp_model *m = &v->merge.model;
    size_t most = 0;
    char package[128] = "";
    for (size_t i = 1; i < f->unnamed.n; i++)
        if (f->unnamed.at[i] > f->unnamed.at[most])
            most = i;
    const char *path = most < f->unnamed.n ? dp_model_text(m, m->mappings.at[most].file) : "";
    const char *slash = strrchr(path, '/'), *urls = getenv("DEBUGINFOD_URLS");
    bool shows_none = v->tells_process && !v->n_labels; /* processes, no functions */
    if (shows_none || *path != '/' || f->unnamed.at[most] < FEWEST || f->unnamed.at[most] < SHARE * (double)f->at.n)
        return false;
    if (access(path, R_OK)) {
        snprintf(
            text, n_bytes,
            "No symbols: %.200s is not on this machine, or has changed; repeat this where it ran, with its symbols "
            "installed",
            slash + 1);
        return true;
    }
    find_package(path, package);
    if (!*package && !(urls && *urls)) {
        snprintf(text, n_bytes, "No symbols: %.200s has none; link it without -s and strip, or set DEBUGINFOD_URLS",
                 slash + 1);
        return true;
    }
    snprintf(text, n_bytes, "No symbols: %.200s has none; install %s%s%s", slash + 1,
             *package ? package : "its debug symbols", *package ? "-dbgsym" : "",
             urls && *urls ? " (the servers in DEBUGINFOD_URLS do not have them)"
                           : ", or set DEBUGINFOD_URLS (Debian: https://debuginfod.debian.net)");
    return true;
}

void dp_summary_heading_symbols(const struct dp_query *v)
{
    char text[640];
    if (!dp_summary_heading_no_symbols(v, text, sizeof text))
        return;
    dp_query_print_clean(text);
    puts(text);
}
