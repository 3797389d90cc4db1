/* SPDX-License-Identifier: MIT */
/* base/beacon.c - fills the page that tells another process where this one writes its profiles. */
#include "base/beacon.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert(sizeof(struct dp_beacon) == DP_BEACON_BYTES, "no gap at its end");

static struct dp_beacon *shown;

int dp_beacon_show(const char *out)
{
    bool is_new = !shown;
    if (is_new)
        shown = dp_mem_table(sizeof *shown); /* never unmapped; one page is touched */
    if (!shown || (!is_new && mprotect(shown, sizeof *shown, PROT_READ | PROT_WRITE)))
        return -ENOMEM;
    memcpy(shown->magic, DP_BEACON_MAGIC, sizeof DP_BEACON_MAGIC);
    shown->mappings = (uintptr_t)dp_mem_mappings();
    strncpy(shown->out, out, sizeof shown->out - 1);
    return mprotect(shown, sizeof *shown, PROT_READ) ? -ENOMEM : 0;
}
