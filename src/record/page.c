/* SPDX-License-Identifier: MIT */
/* record/page.c - which samples should lie at a page boundary, and where a runtime's sample was allocated (page.h). */
#include "record/page.h"

#include "record/gate.h"

#include <deltaprof/interpose.h>

bool deltaprof_sample_wants_page(const struct deltaprof_sample *opaque)
{
    const struct sample *sample = (const struct sample *)opaque;
    bool is_asked = sample->muted && dp_thread_self()->page == DP_PAGE_ASKED;
    if (is_asked)
        dp_thread_self()->page = DP_PAGE_TAKEN;
    return is_asked || (sample->weight && !sample->heap && !dp_gate_is_shut());
}

bool deltaprof_sample_ask_page(const struct deltaprof_sample *opaque)
{
    const struct sample *sample = (const struct sample *)opaque;
    bool wanted = sample->weight && sample->heap == dp_load_relaxed(&dp_gate_heap) && !dp_gate_is_shut();
    if (wanted)
        dp_thread_self()->page = DP_PAGE_ASKED;
    return wanted;
}

bool deltaprof_sample_needs_free(const struct deltaprof_sample *opaque, const void *ptr)
{
    const struct sample *sample = (const struct sample *)opaque;
    return ptr && (sample->weight || sample->muted) && !dp_page_is_given(ptr);
}
