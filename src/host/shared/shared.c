/* SPDX-License-Identifier: MIT */
/*
 * host/shared/shared.c - the list of shared arrays; commits memory for their entries.
 *
 * In private memory every entry can be written from the start. In a file, a page without memory is a hole, and a write
 * to a hole of a full tmpfs kills the process (SIGBUS). So the kernel is asked for the pages of an entry before the
 * entry is used: for as many as the array has, from STEP_LEAST to STEP_MOST bytes. If the kernel refuses, the array
 * counts as full.
 */
#include "host/shared/shared.h"

#include "base/libc.h"
#include "base/process.h"
#include "host/shared/table_file.h"

#include <errno.h>
#include <sys/mman.h>

#define STEP_LEAST DP_PAGE_LEAST
#define STEP_MOST  ((size_t)16 * DP_PAGE_LEAST)

struct dp_shared_own dp_shared_own;
bool (*_Atomic dp_shared_gate_opener)(bool waits);

bool dp_shared_open_gate(bool waits)
{
    bool (*opener)(bool) = dp_load_relaxed(&dp_shared_gate_opener);
    return !opener || opener(waits);
}

static struct dp_shared_array arrays[DP_ARRAYS];

struct dp_shared_array *dp_shared_array(enum dp_tables_array id)
{
    return &arrays[id];
}

int dp_shared_array_init(enum dp_tables_array id, size_t each_bytes, size_t n, size_t most, unsigned n_parts)
{
    struct dp_shared_array *array = &arrays[id];
    size_t stride = dp_page_ceil(most * each_bytes);
    if (n_parts == 1)
        array->at = dp_mem_table_shared(n * each_bytes, stride);
    else
        array->at = dp_mem_table_shared(stride * n_parts, stride * n_parts);
    if (!array->at)
        return -ENOMEM;
    array->each_bytes = each_bytes;
    array->stride_bytes = stride;
    array->most = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    array->n_parts = n_parts;
    dp_store_relaxed(&array->committed, array->most);
    return 0;
}

/* Asks for the pages of [at, at + n_bytes). */
static bool populate(char *at, size_t n_bytes)
{
    uintptr_t from = dp_page_floor((uintptr_t)at), to = dp_page_ceil((uintptr_t)at + n_bytes);
    int saved = errno, err;
    do
        err = madvise((void *)from, to - from, MADV_POPULATE_WRITE) ? errno : 0;
    while (err == EINTR || err == EAGAIN);
    errno = saved;
    return !err;
}

bool dp_shared_commit_slow(struct dp_shared_array *array, uint32_t n)
{
    uint32_t before = dp_load_relaxed(&array->committed);
    if (n > array->most || !dp_shared_file_is_mapped() || dp_process_has_seccomp() || dp_process_is_filtered())
        return false;
    size_t now = (size_t)before * array->each_bytes, step = now < STEP_LEAST ? STEP_LEAST : now;
    size_t want = dp_page_ceil((size_t)n * array->each_bytes),
           to = dp_page_ceil(now + (step < STEP_MOST ? step : STEP_MOST));
    to = to < want ? want : to;
    to = to < array->stride_bytes ? to : array->stride_bytes;
    for (unsigned part = 0; part < array->n_parts; part++)
        if (!populate(array->at + part * array->stride_bytes + now, to - now))
            return false;
    uint32_t n_committed = to / array->each_bytes < array->most ? (uint32_t)(to / array->each_bytes) : array->most;
    while (before < n_committed && !dp_cas_relaxed(&array->committed, &before, n_committed)) {
    }
    dp_shared_file_commit((enum dp_tables_array)(array - arrays), n_committed);
    return true;
}
