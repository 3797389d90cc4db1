/* SPDX-License-Identifier: MIT */
/*
 * pprof/stamp.c - makes, writes and reads the stamps of stamp.h.
 *
 *     1f 8b 08 04  mtime(4) xfl os  14 00  'D' 'P' 10 00  pid_scope(8) process(8)
 *     gzip, FEXTRA                  20 bytes  our field, 16 bytes: little-endian
 */
#include "pprof/stamp.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/epoch.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FLAGS = 3, FEXTRA = 4, FIELD_BYTES = 16 };
static const uint8_t magic[FLAGS] = {0x1f, 0x8b, 8};
static const uint8_t field[] = {4 + FIELD_BYTES, 0, 'D', 'P', FIELD_BYTES, 0};

/* Identifies this boot; 0: not known. Forked processes inherit the answer. */
static uint64_t boot(void)
{
    static _Atomic uint64_t known; /* relaxed: all threads compute the same value */
    uint64_t hash = dp_load_relaxed(&known);
    if (hash)
        return hash;
    char text[64];
    size_t n = dp_io_read_text("/proc/sys/kernel/random/boot_id", text, sizeof text);
    if (n > 0)
        dp_store_relaxed(&known, hash = dp_hash_bytes(text, n, 0) | 1);
    return hash;
}

/* The pid namespace of the process that learned last; 0: not known. Relaxed: a child reads what was stored before it.
 */
static struct {
    _Atomic uint64_t pid_namespace;
    _Atomic pid_t pid;
    _Atomic uint32_t epoch;
} learned;

/*
 * What the parent learned, if it is in the same pid namespace. In another one the parent has no pid. Only the parent
 * itself counts: after a new namespace another process may have that pid.
 */
static uint64_t inherited_namespace(void)
{
    if (dp_epoch() != dp_load_relaxed(&learned.epoch) + 1 || getppid() != dp_load_relaxed(&learned.pid))
        return 0;
    return dp_load_relaxed(&learned.pid_namespace);
}

void dp_stamp_learn(void)
{
    int saved = errno;
    boot();
    dp_store_relaxed(&learned.pid_namespace, dp_process_pid_namespace());
    dp_store_relaxed(&learned.pid, getpid());
    dp_store_relaxed(&learned.epoch, dp_epoch());
    errno = saved;
}

struct dp_stamp dp_stamp_make(pid_t pid)
{
    int saved = errno;
    uint64_t id[4] = {boot(), inherited_namespace(), (uint64_t)pid, (uint64_t)dp_clock_wall_ns()};
    struct dp_stamp stamp = {0};
    if (id[0] && !id[1])
        id[1] = dp_process_pid_namespace();
    if (id[0] && id[1])
        stamp.pid_scope = dp_hash_bytes(id, 2 * sizeof *id, 0) | 1;
    stamp.process = dp_hash_bytes(id, sizeof id, 1) | 1;
    errno = saved;
    return stamp;
}

bool dp_stamp_insert(const struct dp_stamp *stamp, const void *bytes, size_t n_bytes,
                     uint8_t header[DP_STAMP_HEADER_BYTES])
{
    if (n_bytes < DP_STAMP_PLAIN_BYTES || memcmp(bytes, magic, sizeof magic) || ((const uint8_t *)bytes)[FLAGS])
        return false;
    memcpy(header, bytes, DP_STAMP_PLAIN_BYTES);
    header[FLAGS] = FEXTRA;
    memcpy(header + DP_STAMP_PLAIN_BYTES, field, sizeof field);
    uint8_t *to = header + DP_STAMP_PLAIN_BYTES + sizeof field;
    for (int i = 0; i < 8; i++) {
        to[i] = (uint8_t)(stamp->pid_scope >> 8 * i);
        to[8 + i] = (uint8_t)(stamp->process >> 8 * i);
    }
    return true;
}

static void parse(const uint8_t *header, struct dp_stamp *stamp)
{
    if (memcmp(header, magic, sizeof magic) || !(header[FLAGS] & FEXTRA) ||
        memcmp(header + DP_STAMP_PLAIN_BYTES, field, sizeof field))
        return;
    const uint8_t *from = header + DP_STAMP_PLAIN_BYTES + sizeof field;
    for (int i = 0; i < 8; i++) {
        stamp->pid_scope |= (uint64_t)from[i] << 8 * i;
        stamp->process |= (uint64_t)from[8 + i] << 8 * i;
    }
}

int dp_stamp_read(int dir_fd, const char *name, struct dp_stamp *stamp)
{
    uint8_t header[DP_STAMP_HEADER_BYTES];
    struct stat st;
    *stamp = (struct dp_stamp){0};
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    int err = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
    ssize_t n = err ? 0 : read(fd, header, sizeof header);
    if (n < 0)
        err = -errno;
    else if (n == (ssize_t)sizeof header)
        parse(header, stamp);
    close(fd);
    return err;
}
