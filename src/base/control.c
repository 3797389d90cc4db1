/* SPDX-License-Identifier: MIT */
/*
 * base/control.c - finds, opens, maps and reads the control file.
 *
 * dp_control_is_changed asks for a requeue of no thread (FUTEX_CMP_REQUEUE with two zeros): all that is left of it is
 * the comparison of the word. It reads the word with the kernel's own handling of faults, and waits for nothing.
 *
 * dp_control_copy sends the bytes through a pipe: write(2) from the mapping and read(2) into it return EFAULT where a
 * page is missing. A pipe needs no right, and no limit on file sizes applies to the read.
 */
#include "base/control.h"

#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { TMPFS = 0x01021994, PATH_BYTES = 512 };

uint64_t dp_control_check(const struct dp_control_slot *slot)
{
    uint64_t hash = 0xD6E8FEB86659FD93u, word;
    for (size_t i = 0; i < offsetof(struct dp_control_slot, check); i += sizeof word) {
        memcpy(&word, (const char *)slot + i, sizeof word);
        hash = dp_hash_mix(hash ^ word) + i;
    }
    return hash;
}

static bool is_tmpfs(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && (uint32_t)fs.f_type == TMPFS;
}

int dp_control_directory(uid_t uid, char *path, size_t n_bytes)
{
    struct stat stat_of;
    const char *above = secure_getenv("XDG_RUNTIME_DIR");
    bool is_own = above && *above == '/' && strlen(above) < PATH_BYTES / 2 && is_tmpfs(above) &&
                  stat(above, &stat_of) == 0 && stat_of.st_uid == uid;
    if (!is_own)
        above = "/dev/shm";
    if (!is_own && !is_tmpfs(above))
        return -ENOTSUP;
    dp_text_format(path, n_bytes, "%s/" DP_CONTROL_DIRECTORY "%u", above, (unsigned)uid);
    return 0;
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

/* The directory, which only its owner may use. */
static int open_directory(const char *path)
{
    struct stat stat_of;
    if (mkdir(path, 0700) && errno != EEXIST)
        return -errno;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ELOOP || errno == ENOTDIR ? -EPERM : -errno;
    if (fstat(fd, &stat_of) || stat_of.st_uid != geteuid() || stat_of.st_mode & 077) {
        close(fd);
        return -EPERM;
    }
    return fd;
}

int dp_control_open(void)
{
    char path[PATH_BYTES];
    int err = dp_control_directory(geteuid(), path, sizeof path);
    if (err)
        return err;
    int directory = open_directory(path);
    if (directory < 0)
        return directory;
    int fd = openat(directory, DP_CONTROL_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    err = fd < 0 ? (errno == ELOOP ? -EPERM : -errno) : 0;
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
