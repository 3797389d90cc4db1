/* SPDX-License-Identifier: MIT */
/* base/io.c - loops around read and write. An offset of -1 is the descriptor's own position. */
#include "base/io.h"

#include "base/libc.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 << 10, LISTING_BYTES = 4096 };

static ssize_t read_some(int fd, void *to, size_t n_bytes, off_t offset)
{
    return offset < 0 ? syscall(SYS_read, fd, to, n_bytes) : syscall(SYS_pread64, fd, to, n_bytes, offset);
}

int dp_io_write_at(int fd, const void *bytes, size_t n_bytes, off_t offset)
{
    for (const char *at = bytes; n_bytes;) {
        ssize_t n = offset < 0 ? syscall(SYS_write, fd, at, n_bytes) : syscall(SYS_pwrite64, fd, at, n_bytes, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? -errno : -ENOSPC;
        at += n;
        n_bytes -= (size_t)n;
        offset += offset < 0 ? 0 : n;
    }
    return 0;
}

int dp_io_write(int fd, const void *bytes, size_t n_bytes)
{
    return dp_io_write_at(fd, bytes, n_bytes, -1);
}

ssize_t dp_io_read_at(int fd, void *to, size_t n_bytes, off_t offset)
{
    size_t n_read = 0;
    while (n_read < n_bytes) {
        ssize_t n = read_some(fd, (char *)to + n_read, n_bytes - n_read, offset < 0 ? -1 : offset + (off_t)n_read);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        n_read += (size_t)n;
    }
    return (ssize_t)n_read;
}

ssize_t dp_io_read(int fd, void *to, size_t n_bytes)
{
    return dp_io_read_at(fd, to, n_bytes, -1);
}

int dp_io_read_rest(int fd, char **at, size_t *n, size_t *cap)
{
    for (ssize_t got = 1; got; *n += (size_t)got) {
        char *room = dp_mem_vec_place(*at, *cap, *n, PIECE_BYTES, 1)
                         ?: dp_mem_vec_room((void **)at, cap, *n, *n + PIECE_BYTES, 1);
        got = room ? dp_io_read(fd, room, PIECE_BYTES) : -ENOMEM;
        if (got < 0)
            return (int)got;
    }
    return 0;
}

int dp_io_move_high(int fd)
{
    int high = fd < 0 || fd >= DP_IO_HIGH_FD ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, DP_IO_HIGH_FD);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

int dp_io_rename_new(int dir, const char *from, const char *to)
{
    if (!dp_libc_rename(dir, from, to))
        return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != EPERM)
        return -errno;
    if (linkat(dir, from, dir, to, 0))
        return -errno;
    unlinkat(dir, from, 0);
    return 0;
}

int dp_io_each_name(int dir_fd, dp_io_name_fn fn, void *ctx)
{
    _Alignas(struct dirent) char buffer[LISTING_BYTES];
    int result = 0;
    long n_bytes;
    lseek(dir_fd, 0, SEEK_SET);
    while (!result && (n_bytes = syscall(SYS_getdents64, dir_fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n_bytes && !result;) {
            const struct dirent *entry = (const struct dirent *)(buffer + at);
            result = fn(entry->d_name, ctx);
            at += entry->d_reclen;
        }
    return result;
}

size_t dp_io_read_text(const char *path, char *text, size_t room)
{
    int saved = errno, fd = dp_io_move_high(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t n = fd < 0 ? -1 : read_some(fd, text, room - 1, -1);
    if (fd >= 0)
        close(fd);
    errno = saved;
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}
