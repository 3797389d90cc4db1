/* SPDX-License-Identifier: MIT */
/* host/resident/idle.c - clears the bits of used pages, and reads smaps later. */
#include "host/resident/idle.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/vma.h"
#include "host/resident/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static _Atomic int64_t begin_ns; /* relaxed: a time; 0: no moment yet, or the bits could not be cleared */

/* A page that was just written has the bit, if the kernel has such bits. */
static bool has_soft_dirty_bits(void)
{
    struct dp_resident_pages pages = {.pagemap = dp_process_open("pagemap")};
    char *page = dp_mem_map(dp_page_bytes());
    uint64_t word = 0;
    if (page && pages.pagemap >= 0) {
        *(volatile char *)page = 1;
        dp_resident_pages_words(&pages, &word, (uintptr_t)page, 1);
    }
    dp_mem_unmap(page, dp_page_bytes());
    if (pages.pagemap >= 0)
        close(pages.pagemap);
    return word & DP_PAGES_WRITTEN;
}

void dp_resident_idle_begin(void)
{
    int saved = errno, fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    int err = fd < 0 ? -errno : dp_io_write(fd, "1", 1);
    if (!err && has_soft_dirty_bits())
        err = dp_io_write(fd, "4", 1);
    dp_store_relaxed(&begin_ns, err ? 0 : dp_clock_ns());
    if (fd >= 0)
        close(fd);
    errno = saved;
}

static bool is_counted(const struct dp_vma *vma)
{
    return vma->is_anonymous && vma->is_writable && !vma->is_shared;
}

/* A value of smaps, in bytes; 0: the line has another name. */
static int64_t value_of(const char *line, size_t n, const char *name)
{
    size_t n_name = strlen(name);
    int64_t kilobytes = 0;
    if (n < n_name || memcmp(line, name, n_name))
        return 0;
    for (const char *at = line + n_name; at < line + n; at++)
        if (*at >= '0' && *at <= '9')
            kilobytes = kilobytes * 10 + (*at - '0');
    return kilobytes * 1024;
}

static void add_up(struct dp_resident_idle *idle, const char *text, size_t n_bytes)
{
    bool counts = false;
    const char *end = text + n_bytes, *line_end;
    for (const char *line = text; line < end; line = line_end + 1) {
        struct dp_vma vma;
        line_end = memchr(line, '\n', (size_t)(end - line));
        if (!line_end)
            return;
        size_t n = (size_t)(line_end - line);
        if (dp_vma_parse(line, n, &vma)) {
            counts = is_counted(&vma);
        } else if (counts) {
            int64_t resident = value_of(line, n, "Rss:");
            idle->resident_bytes += resident;
            idle->untouched_bytes += resident - value_of(line, n, "Referenced:");
        }
    }
}

/* The profiler's own resident pages; which of them were used is not known. */
static int64_t own_bytes(void)
{
    struct dp_resident_pages pages = {.pagemap = dp_process_open("pagemap"), .step = 1, .others_share = 1};
    size_t n_pages = 0, n_bytes;
    uintptr_t start;
    for (unsigned i = 0; i < DP_MEM_MAPPINGS; i++)
        if (dp_mem_mapping(i, &start, &n_bytes))
            n_pages += dp_resident_pages_exact(&pages, start, dp_page_ceil(n_bytes) / dp_page_bytes());
    if (pages.pagemap >= 0)
        close(pages.pagemap);
    return (int64_t)(n_pages * dp_page_bytes());
}

int dp_resident_idle_read(struct dp_resident_idle *idle)
{
    DP_VEC(char) text = {0};
    int64_t since = dp_load_relaxed(&begin_ns);
    *idle = (struct dp_resident_idle){.since_ns = dp_clock_ns() - since};
    int saved = errno, fd = since ? dp_process_open("smaps") : -1;
    int err = !since ? -EPERM : fd < 0 ? -errno : dp_io_read_rest(fd, &text.at, &text.n, &text.cap);
    if (!err) {
        add_up(idle, text.at, text.n);
        int64_t own = own_bytes();
        idle->resident_bytes -= own < idle->resident_bytes ? own : idle->resident_bytes;
        idle->untouched_bytes -= own < idle->untouched_bytes ? own : idle->untouched_bytes;
        idle->has_pages = has_soft_dirty_bits();
    }
    if (fd >= 0)
        close(fd);
    dp_vec_fini(&text);
    errno = saved;
    return err;
}
