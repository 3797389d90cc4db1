/* SPDX-License-Identifier: MIT */
/*
 * base/clock.c - which clocks are read: the exact ones, or once the time stamp counter is trapped, the coarse ones.
 *
 * A thread whose counter is trapped (PR_SET_TSC) dies when it reads an exact clock. A coarse clock lags by up to a
 * kernel tick. It is set forward by more than that, so that a wait which began by the exact clock does not end before
 * its beginning.
 */
#include "base/clock.h"

#include "base/process.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- the kernel's object ---- */

/*
 * A name is looked up in its symbol table, by its place in memory. The loader is not asked: it takes locks, and a name
 * that it finds may be the program's own.
 */
typedef int (*clock_fn)(clockid_t id, struct timespec *t); /* returns 0 or a negative errno */

struct object {
    uintptr_t bias; /* added to the addresses in the object */
    const char *strings;
    const ElfW(Sym) * symbols;
    uint32_t n_symbols;
};

/* The table of hashes has no number of symbols: they end with the last chain. */
static uint32_t count_hashed(const uint32_t *hash)
{
    uint32_t n_buckets = hash[0], n_unhashed = hash[1], last = 0;
    const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof *hash);
    for (uint32_t i = 0; i < n_buckets; i++)
        last = buckets[i] > last ? buckets[i] : last;
    if (last < n_unhashed)
        return n_unhashed;
    while (!(buckets[n_buckets + last - n_unhashed] & 1))
        last++;
    return last + 1;
}

static void read_dynamic(struct object *o, const ElfW(Dyn) * d)
{
    for (; d->d_tag != DT_NULL; d++) {
        uintptr_t at = d->d_un.d_ptr < o->bias ? d->d_un.d_ptr + o->bias : d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB)
            o->strings = (const char *)at;
        if (d->d_tag == DT_SYMTAB)
            o->symbols = (const ElfW(Sym) *)at;
        if (d->d_tag == DT_HASH)
            o->n_symbols = ((const uint32_t *)at)[1];
        if (d->d_tag == DT_GNU_HASH && !o->n_symbols)
            o->n_symbols = count_hashed((const uint32_t *)at);
    }
}

static uintptr_t find_symbol(const struct object *o, const char *name)
{
    for (uint32_t i = 0; o->strings && o->symbols && i < o->n_symbols; i++)
        if (o->symbols[i].st_shndx != SHN_UNDEF && !strcmp(o->strings + o->symbols[i].st_name, name))
            return o->bias + o->symbols[i].st_value;
    return 0;
}

/* The function that the kernel maps into each process; NULL: it maps none. */
static clock_fn find_clock(void)
{
    const ElfW(Ehdr) *ehdr = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
    struct object o = {0};
    if (!ehdr)
        return NULL;
    const ElfW(Phdr) *phdr = (const void *)((const char *)ehdr + ehdr->e_phoff), *dynamic = NULL;
    for (size_t i = 0; i < ehdr->e_phnum; i++) {
        if (phdr[i].p_type == PT_LOAD && !o.bias)
            o.bias = (uintptr_t)ehdr + phdr[i].p_offset - phdr[i].p_vaddr;
        if (phdr[i].p_type == PT_DYNAMIC)
            dynamic = &phdr[i];
    }
    if (dynamic)
        read_dynamic(&o, (const ElfW(Dyn) *)(o.bias + dynamic->p_vaddr));
    uintptr_t found = find_symbol(&o, "__vdso_clock_gettime");
    return (clock_fn)(found ? found : find_symbol(&o, "__kernel_clock_gettime"));
}

/* ---- clocks ---- */

enum { AHEAD_NS = 20000000, TOGETHER_NS = 20000, MOMENT_TRIES = 20 };

struct dp_clocks dp_clocks = {CLOCK_MONOTONIC, CLOCK_REALTIME, 0};

static int ask_kernel(clockid_t id, struct timespec *t)
{
    return (int)syscall(SYS_clock_gettime, id, t);
}

static int look_up(clockid_t id, struct timespec *t);

/* Replaces itself. Relaxed: each thread that looks it up finds the same. */
static _Atomic clock_fn read_clock = look_up;

static int look_up(clockid_t id, struct timespec *t)
{
    clock_fn found = find_clock();
    dp_store_relaxed(&read_clock, found ? found : ask_kernel);
    return found ? found(id, t) : ask_kernel(id, t);
}

DP_IN_CHILD int64_t dp_clock_read(clockid_t id)
{
    struct timespec t = {0};
    dp_load_relaxed (&read_clock)(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void dp_clock_moment(int64_t *mono_ns, int64_t *wall_ns)
{
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < MOMENT_TRIES && least_ns > TOGETHER_NS; i++) {
        int64_t before_ns = dp_clock_ns(), now_wall_ns = dp_clock_wall_ns(), between_ns = dp_clock_ns() - before_ns;
        if (between_ns < least_ns) {
            least_ns = between_ns;
            *mono_ns = before_ns + between_ns / 2;
            *wall_ns = now_wall_ns;
        }
    }
}

void dp_clock_avoid_counter(void)
{
    dp_store_relaxed(&dp_clocks.ahead_ns, AHEAD_NS);
    dp_store_relaxed(&dp_clocks.monotonic, CLOCK_MONOTONIC_COARSE);
    dp_store_relaxed(&dp_clocks.wall, CLOCK_REALTIME_COARSE);
}
