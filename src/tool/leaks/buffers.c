/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/buffers.c - turns blocks that become larger into blocks that become more.
 *
 * A table that is appended to is few blocks, or one, and all of its growth is in their size: there is no chance in it,
 * as each of them is sampled, and being moved to a larger block is no free. So each time that it became larger counts
 * as one block that is kept.
 *
 * A tick may catch a buffer while it is copied: for a moment there are two blocks, the old and the new one. So a point
 * counts with the least that is in use from then on: what settles. Most points have just that, and as many blocks as
 * the last one; else it is memory that turns over.
 */
#include "tool/leaks/buffers.h"

#include <math.h>

#define SAME   1.02 /* factor: as much as what settles */
#define COPIED 0.3  /* of the points: so many may be while a buffer is copied */
#define MOVED  0.5  /* of the blocks that are allocated: so few are beside those before, and not in place of them */
#define NUMBER 0.25 /* of the blocks, or of one: by so much their number may differ */

bool dp_leaks_buffers_settle(const struct dp_leaks_process *p, const struct dp_leaks_curve *c, size_t first,
                             struct dp_leaks_curve *settled)
{
    if (p->n_points < 2)
        return false;
    size_t last = p->n_points - 1, n_copied = 0, n_steps = 0;
    if (first >= last || c->samples[first] <= 0 || c->samples[last - 1] <= 0)
        return false;
    double least = c->bytes[last], number = fmin(c->samples[last], c->samples[last - 1]);
    least *= c->samples[last] > number + NUMBER ? number / c->samples[last] : 1; /* it may be copied just now */
    *settled = *c;
    for (size_t i = p->n_points; i-- > 0;) {
        least = i < last ? fmin(least, c->bytes[i]) : least;
        settled->bytes[i] = least;
        if (i < first || i > last)
            continue;
        if (c->bytes[i] > SAME * least && c->samples[i] > number + NUMBER)
            n_copied++;
        else if (c->bytes[i] > SAME * least || fabs(c->samples[i] - number) > NUMBER * fmax(number, 1))
            return false;
    }
    double growth = settled->bytes[last] - settled->bytes[first];
    if (growth <= 0 || (double)n_copied > COPIED * (double)(last - first + 1))
        return false;
    double came = 0;
    for (size_t i = first; i < last; i++) {
        n_steps += settled->bytes[i + 1] > settled->bytes[i];
        came += c->allocated_samples[i + 1];
    }
    if (number - c->samples[first] > MOVED * came)
        return false;
    for (size_t i = 0; i < p->n_points; i++) {
        settled->samples[i] = settled->bytes[i] * (double)n_steps / growth;
        settled->allocated_samples[i] = settled->samples[i] - (i ? settled->samples[i - 1] : 0);
        settled->allocated_objects[i] = settled->allocated_samples[i];
    }
    return true;
}
