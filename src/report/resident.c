/* SPDX-License-Identifier: MIT */
/*
 * report/resident.c - reads /proc/self/statm: one line of numbers of pages, of which the second is all resident pages,
 * the third those of files and of shared memory. It costs the kernel no walk through the page tables, as smaps would.
 */
#include "report/resident.h"

#include "base/process.h"

#include <errno.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Reads the number at *at and moves *at behind the character after it. */
static int64_t number(const char **at)
{
    int64_t n = 0;
    while (**at >= '0' && **at <= '9')
        n = n * 10 + (*(*at)++ - '0');
    *at += **at != 0;
    return n;
}

int dp_resident_read(struct dp_resident *resident)
{
    char line[128];
    int saved = errno, fd = dp_process_open("statm");
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    int err = n < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    errno = saved;
    *resident = (struct dp_resident){0};
    if (err)
        return err;
    line[n] = 0;
    const char *at = line;
    number(&at);
    int64_t page_bytes = (int64_t)getauxval(AT_PAGESZ), all = number(&at), of_files = number(&at);
    if (all < of_files || all == 0)
        return -EBADMSG;
    *resident = (struct dp_resident){all * page_bytes, (all - of_files) * page_bytes};
    return 0;
}
