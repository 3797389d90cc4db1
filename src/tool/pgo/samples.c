/* SPDX-License-Identifier: MIT */
/*
 * tool/pgo/samples.c - takes the leaf of each row as the exact address where a thread was, and counts those that lie in
 * one file.
 *
 * Only a file with the profile's build-id is used: in another build the addresses are other functions, and neither
 * clang nor BOLT notices. Where several files of a directory have different builds of a program, the newest counts.
 */
#include "tool/pgo/samples.h"

#include "tool/model/merge.h"
#include "tool/query/print.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whether a mapping may be that of the file: by its base name, or as the main program. */
static bool is_wanted(const struct dp_model *m, uint32_t mapping, const char *object)
{
    if (!object)
        return mapping + 1 == m->main_mapping;
    const char *file = dp_model_text(m, m->mappings.at[mapping].file), *slash = strrchr(file, '/');
    const char *object_slash = strrchr(object, '/');
    return !strcmp(slash ? slash + 1 : file, object_slash ? object_slash + 1 : object);
}

static int refuse(const struct dp_query *v, const char *file, int err)
{
    if (err == -ESTALE)
        dp_query_print_error(
            v->verb,
            "%s has not the build-id of the profile: it is another build; --object FILE names the one that "
            "was profiled",
            file);
    else if (err == -ENOSYS)
        dp_query_print_error(v->verb, "lines cannot be read: the module lines.so or its library (libdw) is missing");
    else
        dp_query_print_error(v->verb, "%s cannot be read; --object FILE names the file that was profiled", file);
    return DP_EXIT_FAILED;
}

/* Finds the mapping of the file. With --object, the file's name need not be that of then: its build-id decides. */
static int find_object(struct dp_pgo_samples *s, const struct dp_query *v, const char *object)
{
    const struct dp_model *m = &v->merge.model;
    int err = -ENOENT;
    for (int by_name = 1; by_name >= 0; by_name--)
        for (uint32_t i = (uint32_t)m->mappings.n; i-- > 0;) {
            if (is_wanted(m, i, object) != by_name || (!object && !by_name) || !m->mappings.at[i].object)
                continue;
            int handle = dp_query_lookup_open(&s->names, m, i, object);
            if (handle >= 0) {
                s->mapping = i;
                s->handle = handle;
                return 0;
            }
            err = err == -ESTALE ? err : handle;
        }
    if (!m->main_mapping) {
        dp_query_print_error(v->verb, "%s: no file of code is named in the profile",
                             dp_query_file_name(v->paths.at[0]));
        return DP_EXIT_FAILED;
    }
    return refuse(v, object ? object : dp_model_text(m, m->mappings.at[m->main_mapping - 1].file), err);
}

static int by_address(const void *a, const void *b)
{
    const struct dp_pgo_address *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static void join(struct dp_pgo_samples *s)
{
    size_t n = 0;
    if (s->at.n)
        qsort(s->at.at, s->at.n, sizeof *s->at.at, by_address);
    for (size_t i = 0; i < s->at.n; i++)
        if (n && s->at.at[n - 1].address == s->at.at[i].address)
            s->at.at[n - 1].n += s->at.at[i].n;
        else
            s->at.at[n++] = s->at.at[i];
    s->at.n = n;
}

static int count(struct dp_pgo_samples *s, const struct dp_query *v)
{
    const struct dp_model *m = &v->merge.model;
    uint32_t object = m->mappings.at[s->mapping].object;
    for (uint32_t row = 0; row < m->rows.n; row++) {
        int64_t n = dp_query_value(v, row);
        if (n <= 0 || !dp_model_depth(m, row) || !dp_query_has_labels(v, row))
            continue;
        const struct dp_model_location *leaf = &m->locations.at[dp_model_stack(m, row)[0]];
        uint64_t address;
        dp_model_merge_sum(&s->n_all, n);
        if (leaf->object != object || !dp_query_lookup_address(&s->names, s->mapping, leaf->place, &address))
            continue;
        struct dp_pgo_address *kept = dp_vec_push(&s->at);
        if (!kept) {
            dp_query_print_error(v->verb, "out of memory");
            return DP_EXIT_FAILED;
        }
        *kept = (struct dp_pgo_address){address, n};
        dp_model_merge_sum(&s->n, n);
    }
    join(s);
    return 0;
}

int dp_pgo_samples_read(struct dp_pgo_samples *s, const struct dp_query *v, const char *object)
{
    int status = find_object(s, v, object);
    return status ? status : count(s, v);
}

int64_t dp_pgo_samples_sum(const struct dp_pgo_samples *s, uint64_t start, uint64_t end)
{
    size_t lo = 0, hi = s->at.n;
    int64_t sum = 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->at.at[mid].address < start)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < s->at.n && s->at.at[lo].address < end; lo++)
        dp_model_merge_sum(&sum, s->at.at[lo].n);
    return sum;
}

void dp_pgo_samples_fini(struct dp_pgo_samples *s)
{
    dp_query_naming_lookup_fini(&s->names);
    dp_vec_fini(&s->at);
}
