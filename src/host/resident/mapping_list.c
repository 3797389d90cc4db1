/* SPDX-License-Identifier: MIT */
/* host/resident/mapping_list.c - reads /proc/self/maps. */
#include "host/resident/mapping_list.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/process.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int read_text(struct dp_resident_mappings *m)
{
    int fd = dp_process_open("maps");
    int err = fd < 0 ? -errno : dp_io_read_rest(fd, &m->text.at, &m->text.n, &m->text.cap);
    if (fd >= 0)
        close(fd);
    return err;
}

int dp_resident_mappings_read(struct dp_resident_mappings *m, size_t stack_bytes)
{
    const struct dp_vma_cuts cuts = {"", stack_bytes};
    int err = read_text(m);
    const char *end = m->text.at + m->text.n, *line_end;
    for (const char *p = m->text.at; !err && p < end; p = line_end + 1) {
        struct dp_vma vma, *kept;
        line_end = memchr(p, '\n', (size_t)(end - p));
        if (!line_end)
            break;
        if (!dp_vma_parse(p, (size_t)(line_end - p), &vma))
            continue;
        const struct dp_vma *below = m->vmas.n ? &m->vmas.at[m->vmas.n - 1] : NULL;
        struct dp_vma rest;
        bool is_cut = dp_vma_cut(&cuts, below, &vma, &rest);
        if (!(kept = dp_vec_room(&m->vmas, 2)))
            return -ENOMEM;
        kept[0] = vma;
        if (is_cut)
            kept[1] = rest;
        m->vmas.n += is_cut ? 2 : 1;
    }
    dp_vma_classify(m->vmas.at, m->vmas.n);
    return err;
}

void dp_resident_mappings_fini(struct dp_resident_mappings *m)
{
    dp_vec_fini(&m->vmas);
    dp_vec_fini(&m->text);
}
