/* SPDX-License-Identifier: MIT */
/*
 * host/locks/captures.h - a budget that limits the time for capturing stacks. Context: hook.
 *
 * A capture takes a microsecond in a native program, and ten or more where a runtime names frames. So the budget is
 * time: each capture uses DP_CAPTURE_NS of it, or, if that is more, DP_CAPTURE_PRICE times the time that the capture
 * took. A budget that was not used for a while allows DP_CAPTURES_BURST captures at once.
 *
 * Relaxed: if two threads race here, one capture more is allowed, or one capture uses less of the budget.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

enum { DP_CAPTURES_BURST = 1000, DP_CAPTURE_PRICE = 400 };
#define DP_CAPTURE_NS      ((int64_t)1000000)
#define DP_CAPTURE_MOST_NS ((int64_t)64000) /* a capture that seems to take longer was interrupted */

/* All zeros: unused. */
struct dp_captures {
    _Atomic int64_t used_until_ns;
};

/* Whether one more stack may be captured now. */
static inline bool dp_captures_allow(struct dp_captures *captures, int64_t now_ns)
{
    int64_t until_ns = dp_load_relaxed(&captures->used_until_ns);
    int64_t least_ns = now_ns - DP_CAPTURES_BURST * DP_CAPTURE_NS;
    if (until_ns > now_ns)
        return false;
    dp_store_relaxed(&captures->used_until_ns, (until_ns > least_ns ? until_ns : least_ns) + DP_CAPTURE_NS);
    return true;
}

/* How far the budget is overdrawn. At least DP_CAPTURE_NS, at most what a burst uses. */
static inline int64_t dp_captures_over_ns(struct dp_captures *captures, int64_t now_ns)
{
    int64_t over_ns = dp_load_relaxed(&captures->used_until_ns) - now_ns;
    return over_ns < DP_CAPTURE_NS                       ? DP_CAPTURE_NS
           : over_ns > DP_CAPTURES_BURST * DP_CAPTURE_NS ? DP_CAPTURES_BURST * DP_CAPTURE_NS
                                                         : over_ns;
}

/* Uses the budget for a capture that was not allowed. */
static inline void dp_captures_overdraw(struct dp_captures *captures)
{
    dp_add_relaxed(&captures->used_until_ns, DP_CAPTURE_NS);
}

/* To be called after a capture: uses the part of its price above DP_CAPTURE_NS. Overdraws by a burst at most. */
static inline void dp_captures_pay(struct dp_captures *captures, int64_t begin_ns, int64_t end_ns)
{
    int64_t took_ns = end_ns - begin_ns;
    int64_t price_ns = (took_ns < DP_CAPTURE_MOST_NS ? took_ns : DP_CAPTURE_MOST_NS) * DP_CAPTURE_PRICE;
    if (price_ns > DP_CAPTURE_NS &&
        dp_load_relaxed(&captures->used_until_ns) < end_ns + DP_CAPTURES_BURST * DP_CAPTURE_NS)
        dp_add_relaxed(&captures->used_until_ns, price_ns - DP_CAPTURE_NS);
}
