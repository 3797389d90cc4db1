/* SPDX-License-Identifier: MIT */
/* host/heap/sample_page.c - which samples should lie at a page boundary, and where a runtime's sample was allocated
 * (sample_page.h). */
#include "host/heap/sample_page.h"

#include "host/thread/gate.h"
#include "host/heap/open_sample.h"

#include <deltaprof/interpose.h>

/*
 * Whether blocks at page boundaries pay for this thread. They spare the other blocks' frees a look at the filter. But
 * each takes time of the allocator and leaves a gap between its free blocks: a program in which one of 40 blocks of
 * some kB lay so took twice its time. So they pay only if a thread makes many allocations from one sample to the next.
 * A sample's weight is an estimate of that number; the mean of the weights decides, and each new one moves it a bit.
 */
static bool pages_pay(struct dp_thread *self, uint32_t weight)
{
    enum { LEAST = 256, MOST = 4000, PARTS = 16, SHARE = 32 };
    int mean = self->spacing ? self->spacing : MOST * PARTS;
    mean += ((int)(weight < MOST ? weight : MOST) * PARTS - mean) / SHARE;
    self->spacing = (uint16_t)mean;
    return mean >= LEAST * PARTS;
}

bool deltaprof_sample_wants_page(const struct deltaprof_sample *opaque)
{
    const struct sample *sample = (const struct sample *)opaque;
    bool is_asked = sample->muted && dp_thread_self()->page == DP_SAMPLE_PAGE_ASKED;
    if (is_asked)
        dp_thread_self()->page = DP_SAMPLE_PAGE_TAKEN;
    return is_asked || (sample->weight && !sample->heap && !dp_thread_gate_is_shut() &&
                        pages_pay(dp_thread_self(), sample->weight));
}

bool deltaprof_sample_ask_page(const struct deltaprof_sample *opaque)
{
    const struct sample *sample = (const struct sample *)opaque;
    bool wanted = sample->weight && sample->heap == dp_load_relaxed(&dp_thread_gate_heap) && !dp_thread_gate_is_shut();
    if (wanted)
        dp_thread_self()->page = DP_SAMPLE_PAGE_ASKED;
    return wanted;
}

bool deltaprof_sample_needs_free(const struct deltaprof_sample *opaque, const void *ptr)
{
    const struct sample *sample = (const struct sample *)opaque;
    return ptr && (sample->weight || sample->muted) && !dp_heap_page_is_given(ptr);
}
