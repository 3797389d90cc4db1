/* SPDX-License-Identifier: MIT */
/*
 * tool/run/program.c - finds COMMAND as execvp would, follows #! to the ELF file that the kernel will start, and checks
 * whether a preload works in it.
 *
 * A preload that does not work gives no error: ld.so ignores it for setuid programs, a C library other than glibc and
 * musl cannot load it, a static program has no loader. So all that can be known from the files is reported here, before
 * the program starts.
 */
#include "tool/run/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAX_SCRIPTS 5 /* the kernel follows no more */

__attribute__((format(printf, 3, 4))) static int refuse(char *why, size_t n_why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, n_why, format, args);
    va_end(args);
    return DP_LAUNCH_REFUSED;
}

static bool is_executable_file(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* As execvp: a name with a slash is a path; else the first of PATH that may be executed. */
static int find(const char *command, char path[PATH_MAX], char *why, size_t n_why)
{
    struct stat st;
    if (strchr(command, '/')) {
        if (snprintf(path, PATH_MAX, "%s", command) >= PATH_MAX)
            return refuse(why, n_why, "%.40s...: the name is too long", command);
        if (is_executable_file(path))
            return 0;
        if (stat(path, &st)) {
            int err = errno;
            snprintf(why, n_why, "%s: %s", command, strerror(err));
            return err == ENOENT ? DP_LAUNCH_ABSENT : DP_LAUNCH_REFUSED;
        }
        return refuse(why, n_why, S_ISDIR(st.st_mode) ? "%s is a directory" : "%s is not executable", command);
    }

    bool there = false;
    const char *dirs = getenv("PATH");
    if (!dirs)
        dirs = "/bin:/usr/bin";
    for (const char *end; *command; dirs = end + 1) {
        end = strchrnul(dirs, ':');
        int n = end == dirs ? snprintf(path, PATH_MAX, "./%s", command)
                            : snprintf(path, PATH_MAX, "%.*s/%s", (int)(end - dirs), dirs, command);
        if (n < PATH_MAX && is_executable_file(path))
            return 0;
        there |= n < PATH_MAX && !stat(path, &st) && S_ISREG(st.st_mode);
        if (!*end)
            break;
    }
    if (there)
        return refuse(why, n_why, "%s is in PATH, but not executable", command);
    snprintf(why, n_why, "%s: no such command", command);
    return DP_LAUNCH_ABSENT;
}

/* The first bytes of a file as a string; 0, or -errno. */
static int first_line(const char *path, char *line, size_t n_line)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, line, n_line - 1);
    int err = n < 0 ? -errno : 0;
    close(fd);
    line[n < 0 ? 0 : n] = 0;
    line[strcspn(line, "\n")] = 0;
    return err;
}

/* The interpreter that a #! line names; `env NAME` is followed to NAME. */
static int interpreter(const char *script, char *line, char path[PATH_MAX], char *why, size_t n_why)
{
    char *rest, *words = line + 2;
    char *name = strtok_r(words, " \t", &rest);
    if (!name)
        return refuse(why, n_why, "%s: its #! names no interpreter", script);
    if (!is_executable_file(name))
        return refuse(why, n_why, "%s: its interpreter %s does not exist or is not executable", script, name);
    const char *base = strrchr(name, '/');
    const char *argument = strtok_r(NULL, " \t", &rest);
    if (base && !strcmp(base, "/env") && argument && argument[0] != '-' && !strchr(argument, '='))
        return find(argument, path, why, n_why);
    return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX ? 0 : refuse(why, n_why, "%s: its #! is too long", script);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The reason why ld.so would ignore LD_PRELOAD, or NULL. */
static const char *is_privileged(const char *path)
{
    struct stat st;
    struct statvfs fs;
    char capability[64];
    if (stat(path, &st) || (!statvfs(path, &fs) && fs.f_flag & ST_NOSUID))
        return NULL;
    if (st.st_mode & S_ISUID && st.st_uid != getuid())
        return "is setuid";
    if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid())
        return "is setgid";
    return getxattr(path, "security.capability", capability, sizeof capability) > 0 ? "has file capabilities" : NULL;
}

static int judge(struct dp_run_program *program, char *why, size_t n_why)
{
    static const char self[] = "/proc/self/exe";
    struct dp_binary ours, *elf = &program->elf;
    const char *file = program->binary;

    if (elf->is_cut)
        return refuse(why, n_why, "%s cannot be read: the file ends before the program does", file);
    if (!elf->is_ours)
        return refuse(why, n_why, "%s is a program for another machine; deltaprof cannot be loaded into it", file);
    if (dp_binary_read(self, &ours))
        ours.interp[0] = 0;
    struct stat loader, st;
    bool is_loader = *ours.interp && !stat(ours.interp, &loader) && !stat(file, &st) && st.st_ino == loader.st_ino &&
                     st.st_dev == loader.st_dev;
    if (!*elf->interp && !is_loader)
        return refuse(why, n_why, "%s is linked statically: nothing can be preloaded into it%s", file,
                      elf->runtime == DP_BINARY_RUNTIME_GO ? "; Go's own net/http/pprof shows its heap" : "");
    program->is_musl = !strncmp(base_name(elf->interp), "ld-musl-", 8);
    bool is_known = program->is_musl || !strncmp(base_name(elf->interp), "ld-linux", 8) ||
                    !strcmp(base_name(elf->interp), base_name(ours.interp));
    if (*elf->interp && !is_known)
        return refuse(why, n_why, "%s uses another C library (%s); deltaprof is for glibc and musl", file, elf->interp);
    if (*elf->interp && access(elf->interp, X_OK))
        return refuse(why, n_why, "%s: its loader %s does not exist", file, elf->interp);
    const char *privileged = is_privileged(file);
    if (privileged)
        return refuse(why, n_why, "%s %s: the loader ignores LD_PRELOAD for such programs", file, privileged);
    if (*elf->sanitizer)
        return refuse(why, n_why, "%s is built with a sanitizer (%s), which needs malloc for itself", file,
                      elf->sanitizer);
    return 0;
}

int dp_run_program_find(struct dp_run_program *program, const char *command, char *why, size_t n_why)
{
    memset(program, 0, sizeof *program);
    int status = find(command, program->path, why, n_why);
    if (status)
        return status;
    memcpy(program->binary, program->path, sizeof program->binary);

    for (int i = 0; i <= MAX_SCRIPTS; i++) {
        char line[512], script[PATH_MAX];
        int err = dp_binary_read(program->binary, &program->elf);
        if (err == -EACCES)
            return 0; /* executable but not readable: the kernel will report errors */
        if (err)
            return refuse(why, n_why, "%s: %s", program->binary, strerror(-err));
        if (program->elf.is_elf)
            return judge(program, why, n_why);
        memcpy(script, program->binary, sizeof script);
        err = first_line(script, line, sizeof line);
        if (err)
            return refuse(why, n_why, "%s: %s", script, strerror(-err));
        if (!strncmp(line, "#!", 2)) {
            status = interpreter(script, line, program->binary, why, n_why);
            if (status)
                return DP_LAUNCH_REFUSED;
        } else {
            program->by_shell |= i == 0;
            if (i > 0)
                return refuse(why, n_why, "%s is not a program", script);
            memcpy(program->binary, "/bin/sh", sizeof "/bin/sh");
        }
    }
    return refuse(why, n_why, "%s: too many interpreters", command);
}
