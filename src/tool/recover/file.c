/* SPDX-License-Identifier: MIT */
/* tool/recover/file.c - writes a profile to a new file, and adds the stamp to its gzip header. */
#include "tool/recover/file.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int dp_recover_write_file(int dir, const char *name, const struct dp_stamp *stamp,
                          const struct dp_recover_bytes *profile)
{
    uint8_t header[DP_STAMP_HEADER_BYTES];
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    bool stamped = stamp->process && dp_stamp_insert(stamp, profile->at.at, profile->at.n, header);
    size_t skipped = stamped ? DP_STAMP_PLAIN_BYTES : 0;
    int err = stamped ? dp_io_write(fd, header, sizeof header) : 0;
    err = err ? err : dp_io_write(fd, profile->at.at + skipped, profile->at.n - skipped);
    if (close(fd) && !err)
        err = -errno;
    if (err)
        unlinkat(dir, name, 0);
    return err;
}
