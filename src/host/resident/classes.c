/* SPDX-License-Identifier: MIT */
/*
 * host/resident/classes.c - the sizes that the C heap's allocator gives to blocks.
 *
 * An allocator is asked once, when the process starts: to call it at a report could take its locks. Most have some
 * hundred sizes of growing distance. glibc's malloc has one every 16 bytes; so behind the last known size the distance
 * stays what it was.
 */
#include "host/resident/resident.h"

#include "base/mem.h"

enum { MOST = 512, REGULAR = 40 };

static struct {
    unsigned n;
    size_t sizes[MOST]; /* ascending */
} classes DP_LARGE;

void dp_resident_classes_learn(size_t (*size_of)(size_t n, int flags))
{
    unsigned n = 0, n_alike = 0;
    for (size_t size = 0; n < MOST && n_alike < REGULAR; n++) {
        size_t next = size_of(size + 1, 0);
        if (next <= size || next > SIZE_MAX / 4)
            break;
        n_alike = n > 1 && next - size == size - classes.sizes[n - 2] ? n_alike + 1 : 0;
        classes.sizes[n] = size = next;
    }
    classes.n = n;
}

size_t dp_resident_class_of(size_t n_bytes)
{
    if (classes.n < 2 || !n_bytes)
        return n_bytes;
    size_t last = classes.sizes[classes.n - 1], step = last - classes.sizes[classes.n - 2];
    if (n_bytes > last)
        return last + (n_bytes - last + step - 1) / step * step;
    unsigned low = 0, high = classes.n - 1;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (classes.sizes[middle] < n_bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return classes.sizes[low];
}
