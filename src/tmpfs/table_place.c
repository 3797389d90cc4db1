/* SPDX-License-Identifier: MIT */
/*
 * tmpfs/table_place.c - opens the directory that holds files of tables, and refuses one that another user can write to.
 */
#include "tmpfs/table_place.h"

#include "base/clock.h"
#include "base/text.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { WANTED_S = 3600 };

static int close_and_return(int fd, int err)
{
    syscall(SYS_close, fd);
    return err;
}

static int open_directory(const char *path)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Makes the last component of the path, in a tmpfs only, so that nothing is left on a disk. */
static int make_directory(const char *path)
{
    char above[PATH_MAX];
    struct statfs fs;
    size_t n = dp_text_format(above, sizeof above, "%s", path);
    while (n > 1 && above[n - 1] == '/')
        above[--n] = '\0';
    char *slash = strrchr(above, '/');
    if (slash)
        slash[slash == above] = '\0';
    if (syscall(SYS_statfs, slash ? above : ".", &fs))
        return -errno;
    if (fs.f_type != TMPFS_MAGIC)
        return -ENOTSUP;
    return syscall(SYS_mkdirat, AT_FDCWD, path, 0700) && errno != EEXIST ? -errno : 0;
}

int dp_tables_place_open(const char *path, bool makes, const char **what)
{
    struct stat st;
    struct statfs fs;
    *what = "open the directory";
    int fd = open_directory(path);
    if (fd < 0 && errno == ENOENT && makes) {
        int err = make_directory(path);
        if (err) {
            *what = err == -ENOTSUP ? "make the directory, which must be in a tmpfs" : "make the directory";
            return err;
        }
        fd = open_directory(path);
    }
    if (fd < 0)
        return -errno;
    *what = "use the directory, which must be this user's with mode 0700";
    if (syscall(SYS_fstat, fd, &st))
        return close_and_return(fd, -errno);
    if (st.st_uid != (uid_t)syscall(SYS_geteuid) || st.st_mode & 077)
        return close_and_return(fd, -EACCES);
    *what = "use the directory, which must be in a tmpfs";
    if (syscall(SYS_fstatfs, fd, &fs))
        return close_and_return(fd, -errno);
    return fs.f_type == TMPFS_MAGIC ? fd : close_and_return(fd, -ENOTSUP);
}

void dp_tables_place_default(char *path, size_t n_bytes)
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    struct stat st;
    struct statfs fs;
    bool is_usable = runtime && *runtime == '/' && strlen(runtime) < n_bytes / 2 && !stat(runtime, &st) &&
                     st.st_uid == geteuid() && !statfs(runtime, &fs) && fs.f_type == TMPFS_MAGIC;
    dp_tables_place_of(geteuid(), is_usable ? runtime : "/dev/shm", path, n_bytes);
}

void dp_tables_place_of(uid_t user, const char *above, char *path, size_t n_bytes)
{
    dp_text_format(path, n_bytes, "%s/" DP_TABLES_DIRECTORY "%u", above, (unsigned)user);
}

size_t dp_tables_build_id(const void *notes, size_t n_bytes, uint8_t build_id[32])
{
    const char *bytes = notes;
    for (size_t at = 0; n_bytes - at >= sizeof(Elf64_Nhdr) && at < n_bytes;) {
        Elf64_Nhdr note;
        memcpy(&note, bytes + at, sizeof note);
        size_t name = at + sizeof note, desc = name + (((size_t)note.n_namesz + 3) & ~(size_t)3);
        size_t next = desc + (((size_t)note.n_descsz + 3) & ~(size_t)3);
        if (next > n_bytes || next <= at)
            break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(bytes + name, "GNU", 4) &&
            note.n_descsz <= 32) {
            memcpy(build_id, bytes + desc, note.n_descsz);
            return note.n_descsz;
        }
        at = next;
    }
    return 0;
}

int dp_tables_place_lock(int dir)
{
    int fd = openat(dir, DP_TABLES_SERVE_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    for (int i = 0; i < 100; i++) { /* other processes, in look_at_lock, have a shared lock for a moment */
        if (!flock(fd, LOCK_EX | LOCK_NB))
            return fd;
        usleep(1000);
    }
    return close_and_return(fd, -EAGAIN);
}

int dp_tables_place_set_files(int lock, const char *out)
{
    size_t n = strlen(out);
    char before[PATH_MAX];
    if (n >= PATH_MAX)
        return -ENAMETOOLONG;
    if (pread(lock, before, sizeof before, 0) == (ssize_t)n && !memcmp(before, out, n))
        return futimens(lock, NULL) ? -errno : 0; /* not truncated: this process may be killed at any time */
    if (ftruncate(lock, 0))
        return -errno;
    ssize_t written = n ? pwrite(lock, out, n, 0) : 0;
    return written == (ssize_t)n ? 0 : written < 0 ? -errno : -ENOSPC;
}

void dp_tables_place_files(int dir, char out[PATH_MAX])
{
    int fd = openat(dir, DP_TABLES_SERVE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : pread(fd, out, PATH_MAX - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    if (*out != '/')
        *out = '\0';
    if (fd >= 0)
        close(fd);
}

/*
 * Returns whether a program has the lock of the directory. *is_recent: the lock's file has a text, and was written or
 * touched less than WANTED_S ago.
 */
static bool look_at_lock(const char *directory, bool *is_recent)
{
    char path[PATH_MAX];
    struct stat st;
    dp_text_format(path, sizeof path, "%s/" DP_TABLES_SERVE_FILE, directory);
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    *is_recent = fd >= 0 && !syscall(SYS_fstat, (int)fd, &st) && st.st_size &&
                 dp_clock_wall_ns() / 1000000000 - (int64_t)st.st_mtim.tv_sec < WANTED_S;
    if (fd < 0)
        return false;
    bool is_locked = syscall(SYS_flock, (int)fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    syscall(SYS_close, (int)fd);
    return is_locked;
}

/* Whether less than half of the tmpfs is in use: it is memory, and the program may need its own room there. */
static bool has_room(const char *directory)
{
    struct statfs fs;
    return !syscall(SYS_statfs, directory, &fs) && fs.f_bavail >= fs.f_blocks / 2;
}

bool dp_tables_place_is_served(const char *directory)
{
    bool is_recent;
    return look_at_lock(directory, &is_recent);
}

bool dp_tables_place_wants_table(const char *directory)
{
    bool is_recent;
    return look_at_lock(directory, &is_recent) || (is_recent && has_room(directory));
}
