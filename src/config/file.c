/* SPDX-License-Identifier: MIT */
/* config/file.c - opens a file that a key names. */
#include "config/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int dp_config_file_open(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    int err = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -ESPIPE;
    if (!err)
        return fd;
    close(fd);
    return err;
}
