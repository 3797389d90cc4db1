/* SPDX-License-Identifier: MIT */
/*
 * tmpfs/control.c - finds, opens, maps and reads the control file.
 *
 * dp_control_is_changed asks for a requeue of no thread (FUTEX_CMP_REQUEUE with two zeros): all that is left of it is
 * the comparison of the word. It reads the word with the kernel's own handling of faults, and waits for nothing.
 *
 * dp_control_copy sends the bytes through a pipe: write(2) from the mapping and read(2) into it return EFAULT where a
 * page is missing. A pipe needs no right, and no limit on file sizes applies to the read.
 */
#include "tmpfs/control.h"

#include "base/hash.h"
#include "tmpfs/table_place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

uint64_t dp_control_check(const struct dp_control_slot *slot)
{
    uint64_t hash = 0xD6E8FEB86659FD93u, word;
    for (size_t i = 0; i < offsetof(struct dp_control_slot, check); i += sizeof word) {
        memcpy(&word, (const char *)slot + i, sizeof word);
        hash = dp_hash_mix(hash ^ word) + i;
    }
    return hash;
}

int dp_control_verify(int fd, uid_t owner)
{
    struct stat stat_of;
    char magic[sizeof(((struct dp_control_file *)0)->magic)];
    if (fstat(fd, &stat_of))
        return -errno;
    if (!S_ISREG(stat_of.st_mode) || stat_of.st_uid != owner || stat_of.st_mode & 077)
        return -EPERM;
    bool is_whole =
        stat_of.st_size == sizeof(struct dp_control_file) && pread(fd, magic, sizeof magic, 0) == sizeof magic;
    return is_whole && memcmp(magic, DP_CONTROL_MAGIC, sizeof DP_CONTROL_MAGIC) == 0 ? 0 : -EPROTO;
}

/* If two processes do it at once, both write the same. */
int dp_control_fill(int fd)
{
    struct rlimit limit;
    struct stat stat_of;
    if (fstat(fd, &stat_of))
        return -errno;
    if (!S_ISREG(stat_of.st_mode))
        return -EPERM;
    if (stat_of.st_size)
        return 0;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < sizeof(struct dp_control_file))
        return -EFBIG; /* a write would raise SIGXFSZ */
    ssize_t n = pwrite(fd, DP_CONTROL_MAGIC, sizeof DP_CONTROL_MAGIC, 0);
    if (n != sizeof DP_CONTROL_MAGIC || ftruncate(fd, sizeof(struct dp_control_file)))
        return n < 0 ? -errno : -ENOSPC;
    return 0;
}

int dp_control_open(void)
{
    char path[PATH_BYTES];
    const char *what;
    dp_tables_place_default(path, sizeof path);
    int directory = dp_tables_place_open(path, true, &what);
    if (directory == -EACCES || directory == -ELOOP || directory == -ENOTDIR)
        return -EPERM;
    if (directory < 0)
        return directory;
    int fd = openat(directory, DP_CONTROL_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    int err = fd < 0 ? (errno == ELOOP ? -EPERM : -errno) : 0;
    close(directory);
    for (int i = 0; fd >= 0 && i < 2; i++) { /* another process may be about to fill it */
        err = dp_control_fill(fd);
        if (err == 0)
            err = dp_control_verify(fd, geteuid());
        if (err != -EPROTO)
            break;
        usleep(10000);
    }
    if (err && fd >= 0)
        close(fd);
    return err ? err : fd;
}

struct dp_control_file *dp_control_map(int fd)
{
    void *at = mmap(NULL, sizeof(struct dp_control_file), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

bool dp_control_is_changed(struct dp_control_file *file, pid_t pid, uint32_t seen)
{
    static _Atomic uint32_t nobody;
    int saved = errno;
    void *word = (char *)file + dp_control_word_at(pid);
    bool is = syscall(SYS_futex, word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)0, &nobody, seen) < 0 && errno == EAGAIN;
    errno = saved;
    return is;
}

uint32_t dp_control_word(struct dp_control_file *file, pid_t pid, uint32_t seen)
{
    uint32_t word;
    return dp_control_copy(&word, (char *)file + dp_control_word_at(pid), sizeof word) ? seen : word;
}

int dp_control_copy(void *to, const void *from, size_t n_bytes)
{
    int ends[2], err = 0;
    if (syscall(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK))
        return -errno;
    long n = syscall(SYS_write, ends[1], from, n_bytes);
    if (n == (long)n_bytes)
        n = syscall(SYS_read, ends[0], to, n_bytes);
    if (n != (long)n_bytes)
        err = n < 0 ? -errno : -EFAULT;
    syscall(SYS_close, ends[0]);
    syscall(SYS_close, ends[1]);
    return err;
}
