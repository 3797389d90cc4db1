/* SPDX-License-Identifier: MIT */
/*
 * host/agent/profile_file.c - writes profiles to files. A file gets its final name when it is complete.
 *
 * It is written under a temporary name (hidden, O_EXCL, O_NOFOLLOW, 0600) and then renamed by dp_io_rename_new. If two
 * processes have the same PROGRAM and PID (containers that share a directory), the later one gets EEXIST and uses the
 * next SEQ. All paths are relative to a descriptor of the directory, so that the files of a tick stay together even if
 * the directory is moved. Descriptors are moved to 512 and above: a host that expects the lowest free number gets it.
 */
#include "host/agent/profile_file.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/text.h"
#include "host/agent/sweep.h"
#include "profile/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SWEEP_TICKS = 64, SEQ_MOST = 999999999 };

int dp_agent_files_init(struct dp_agent_files *files, const char *out, const char *program, pid_t pid, int64_t keep)
{
    memset(files, 0, sizeof *files);
    files->pid = pid;
    files->keep = keep;
    dp_text_format(files->program, sizeof files->program, "%s", program);
    return dp_profile_directory_expand(out, program, pid, files->dir, sizeof files->dir);
}

int dp_agent_files_make_directory(const struct dp_agent_files *files)
{
    return mkdir(files->dir, 0700) && errno != EEXIST ? -errno : 0;
}

void dp_agent_files_note_no_sample(const struct dp_agent_files *files, const char *text)
{
    char path[sizeof files->dir + sizeof DP_PROFILE_NO_SAMPLE], line[DP_PROGRAM_TEXT + 256];
    dp_text_format(path, sizeof path, "%s/" DP_PROFILE_NO_SAMPLE, files->dir);
    size_t n = dp_text_format(line, sizeof line, "%s: %s\n", files->program, text);
    unlink(path); /* never writes into a file that is there: in a shared directory it may be anybody's */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write(fd, line, n) < 0)
        unlink(path);
    close(fd);
}

/* ---- SEQ -------------------------------------------------------------------------------------------------------- */

/* The SEQ of a file of this process; 0: another name. */
static uint32_t seq_of(const struct dp_agent_files *files, const char *name)
{
    struct dp_profile_name parts;
    bool is_own = dp_profile_name_parse(name, &parts) && parts.pid == (uint64_t)files->pid &&
                  parts.n_program == strlen(files->program) && !memcmp(name, files->program, parts.n_program);
    return is_own && parts.seq <= SEQ_MOST ? (uint32_t)parts.seq : 0;
}

struct highest {
    const struct dp_agent_files *files;
    uint32_t seq;
};

static int look_at_name(const char *name, void *context)
{
    struct highest *highest = context;
    uint32_t seq = seq_of(highest->files, name);
    if (seq > highest->seq)
        highest->seq = seq;
    return 0;
}

static uint32_t find_highest_seq(const struct dp_agent_files *files)
{
    struct highest highest = {files, 0};
    dp_io_each_name(files->dir_fd, look_at_name, &highest);
    return highest.seq;
}

static int open_directory(struct dp_agent_files *files)
{
    if (files->next)
        return 0;
    int fd = dp_io_move_high(open(files->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return -errno;
    files->dir_fd = fd;
    if (!files->stamp.process)
        files->stamp = dp_stamp_make(files->pid);
    /* a forked process may be one of thousands: it scans only if its name is in use */
    if (!files->seq && !files->forked)
        files->seq = find_highest_seq(files);
    files->next = files->seq + 1;
    files->n_kept = 0;
    return 0;
}

/* Deletes the oldest tick beyond `keep`, if this process wrote it. */
static void delete_tick(const struct dp_agent_files *files, uint32_t seq)
{
    for (unsigned kind = 0; kind < DP_KINDS; kind++) {
        char name[DP_PROFILE_NAME_MAX];
        struct dp_stamp stamp;
        dp_profile_name_format(name, files->program, files->pid, seq, kind);
        if (!dp_stamp_read(files->dir_fd, name, &stamp) && stamp.process == files->stamp.process)
            unlinkat(files->dir_fd, name, 0);
    }
}

/* A sweep reads the whole directory, so it is not done at each tick, and only by some of many short workers. */
static bool sweep_is_due(const struct dp_agent_files *files)
{
    uint64_t some = files->keep / 4 < SWEEP_TICKS ? (uint64_t)files->keep / 4 + 1 : SWEEP_TICKS;
    if (files->n_ticks > 1)
        return files->n_ticks % SWEEP_TICKS == 0;
    return !files->forked || !files->keep || files->stamp.process / 2 % some == 0;
}

unsigned dp_agent_files_end(struct dp_agent_files *files)
{
    if (!files->next)
        return 0;
    if (files->n_kept) {
        files->seq = files->next;
        files->first = files->first ? files->first : files->seq;
        files->n_ticks++;
        if (files->keep && files->seq - files->first >= files->keep)
            delete_tick(files, files->seq - (uint32_t)files->keep);
        if (sweep_is_due(files))
            dp_agent_sweep(files->dir_fd, &files->stamp, files->pid, files->keep);
    }
    close(files->dir_fd);
    files->next = 0;
    return files->n_kept;
}

/* ---- one file --------------------------------------------------------------------------------------------------- */

static int open_temporary(struct dp_agent_file *file)
{
    struct dp_agent_files *files = file->files;
    int err = open_directory(files);
    for (int tries = 0; err == 0 && tries < 16; tries++) {
        dp_profile_name_format_temporary(file->temporary, files->program, files->pid, file->kind,
                                         (uint64_t)dp_clock_wall_ns());
        file->fd = dp_io_move_high(
            openat(files->dir_fd, file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (file->fd >= 0) {
            file->open = true;
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return err ? err : -EEXIST;
}

int dp_agent_file_write(void *ctx, const void *bytes, size_t n_bytes)
{
    struct dp_agent_file *file = ctx;
    uint8_t header[DP_STAMP_HEADER_BYTES];
    if (file->open)
        return dp_io_write(file->fd, bytes, n_bytes);
    int err = open_temporary(file);
    if (err == 0 && dp_stamp_insert(&file->files->stamp, bytes, n_bytes, header)) {
        err = dp_io_write(file->fd, header, sizeof header);
        bytes = (const char *)bytes + DP_STAMP_PLAIN_BYTES;
        n_bytes -= DP_STAMP_PLAIN_BYTES;
    }
    return err ? err : dp_io_write(file->fd, bytes, n_bytes);
}

int dp_agent_file_keep(struct dp_agent_file *file)
{
    struct dp_agent_files *files = file->files;
    if (!file->open)
        return 0;
    int err = close(file->fd) && errno != EINTR ? -errno : -EEXIST; /* NFS reports a full disk here */
    file->fd = -1;
    for (int tries = 0; err == -EEXIST && tries < 16; tries++) {
        char name[DP_PROFILE_NAME_MAX];
        dp_profile_name_format(name, files->program, files->pid, files->next, file->kind);
        err = dp_io_rename_new(files->dir_fd, file->temporary, name);
        if (err == -EEXIST) {
            uint32_t highest = find_highest_seq(files);
            files->next = (highest > files->next ? highest : files->next) + 1;
        }
    }
    if (err)
        dp_agent_file_drop(file);
    else
        files->n_kept++;
    file->open = false;
    return err;
}

void dp_agent_file_drop(struct dp_agent_file *file)
{
    if (!file->open)
        return;
    if (file->fd >= 0)
        close(file->fd);
    unlinkat(file->files->dir_fd, file->temporary, 0);
    file->open = false;
}
