/* SPDX-License-Identifier: MIT */
/*
 * Compares walks over the stacks of a simulated machine (walk_machine.h), a million of them. Three walks must agree,
 * frame by frame, at each turn: a walk with the stack cache, a walk with an empty stack cache, and a plain unwinder in
 * this file. The plain unwinder has no cache, and takes the rules from a table instead of .eh_frame. If the stack is
 * found among the recent ones, that stack must agree too.
 *
 * usage: test_walk_model [TURNS [SEED]]. Uses only libc, so that aarch64.sh can run it too.
 */
#include "walk_machine.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

#include <deltaprof/hooks.h>

#include "host/unwind/recent_stacks.h"
#include "host/unwind/unwind.h"
#include "host/unwind/unwind_cache.h"

static bool readable(struct model *m, uintptr_t address)
{
    const struct area *area = area_of(m, address);
    if (address % 8 || (m->hole && address - m->hole < PAGE))
        return false;
    return area ? area->mapped
                : address - m->with->own.lo < m->with->own.hi - m->with->own.lo || dp_reach_probe(address);
}

/* The plain unwinder. */
static void plain_walk(struct model *m, const struct deltaprof_site *site, struct result *r)
{
    uintptr_t pc = site->pc, sp = site->sp, fp = site->fp, link = 0;
    bool exact = false;
    int turns = 0;
    r->n = 0;
    r->elsewhere = false;
    for (;;) {
        uintptr_t where = exact ? pc : dp_walk_strip(pc);
        r->end = where || exact ? DP_WALK_CUT : DP_WALK_WHOLE;
        if (!dp_walk_plausible(where) || r->n == m->depth)
            return;
        where -= !exact;
        r->pcs[r->n++] = where;
        struct shape s = shape_at(where);
        r->elsewhere = s.kind == NONE && dp_object_find(where) && where - (uintptr_t)walk_model_code >= N_SHAPES * CODE;
        if (r->elsewhere)
            return;
        r->end = s.kind == END ? DP_WALK_WHOLE : s.kind == FOREIGN ? DP_WALK_LIBUNWIND : DP_WALK_CUT;
        exact = s.kind == SIGNAL || ((s.kind == BY_SP || s.kind == BY_FP) && s.marked);
        if (s.kind == SIGNAL) {
            if (!readable(m, sp + CONTEXT_PC) || !readable(m, sp + CONTEXT_SP) || !readable(m, sp + CONTEXT_FP) ||
                !readable(m, sp + CONTEXT_LINK) || turns++ >= TURNS_BACK)
                return;
            link = dp_reach_read(sp + CONTEXT_LINK);
            pc = dp_reach_read(sp + CONTEXT_PC);
            fp = dp_reach_read(sp + CONTEXT_FP);
            sp = dp_reach_read(sp + CONTEXT_SP);
        } else if (s.kind == BY_SP || s.kind == BY_FP) {
            uintptr_t cfa = (s.kind == BY_SP ? sp : fp) + 8 * (uintptr_t)(intptr_t)s.o, slot = cfa - 8 * (uintptr_t)s.s;
            bool by_link = return_slot(s) == INT_MAX;
            uintptr_t from = cfa - 8 * (uintptr_t)return_slot(s);
            if (by_link ? !link : !readable(m, from))
                return;
            pc = by_link ? link : dp_reach_read(from);
            link = 0;
            if (s.s && !readable(m, slot))
                return;
            fp = s.s ? dp_reach_read(slot) : fp;
            if (cfa <= sp && turns++ >= TURNS_BACK)
                return;
            sp = cfa;
        } else {
            return;
        }
    }
}

static bool same_frames(const struct result *a, const struct result *b)
{
    return a->n == b->n && !memcmp(a->pcs, b->pcs, a->n * sizeof *a->pcs);
}

static bool same(const struct result *a, const struct result *b)
{
    return a->end == b->end && a->hash == b->hash && same_frames(a, b);
}

static void show(const char *name, const struct result *r)
{
    printf("%s: end %d, %u frames:", name, r->end, r->n);
    for (uint32_t i = 0; i < r->n; i++)
        printf(" %lx", r->pcs[i] - (uintptr_t)walk_model_code);
    printf("\n");
}

/* False: the stack is not among the recent ones. */
static bool recent_walk(struct model *m, const struct deltaprof_site *site, uint32_t generation, struct result *r)
{
    const struct dp_recent_stack *stack = dp_recent_stacks_find(m->with, site, generation);
    if (!stack)
        return false;
    r->end = DP_WALK_WHOLE;
    r->n = stack->depth;
    r->hash = stack->known.hash;
    for (uint32_t i = 0; i < r->n; i++)
        r->pcs[i] = dp_frame_get(stack->ids[i])->pc;
    return true;
}

static void profiler_walk(struct model *m, struct dp_stack_cache *cache, bool forget, const struct deltaprof_site *site,
                          struct result *r)
{
    uint32_t generation = below(m, 200) ? m->generation : 0;
    struct result recent;
    bool is_recent = !forget && recent_walk(m, site, generation, &recent);
    dp_stack_cache_begin(cache, generation);
    if (forget)
        dp_stack_cache_clear(cache);
    r->end = dp_walk(cache, site, m->depth);
    r->known = cache->known.record != 0;
    cache->known.record = 1;
    r->n = dp_stack_cache_depth(cache) < m->depth ? dp_stack_cache_depth(cache) : m->depth;
    r->hash = r->n ? dp_stack_cache_hash(cache, r->n) : 0;
    const dp_frame_id *ids = dp_stack_cache_ids(cache);
    if (r->n && r->hash != dp_stack_hash(ids, r->n))
        r->hash = 1; /* a hash that the other walk cannot have */
    for (uint32_t i = 0; i < r->n; i++)
        r->pcs[i] = dp_frame_get(ids[i])->pc;
    if (!forget && r->end == DP_WALK_WHOLE) {
        cache->known.hash = r->hash;
        dp_recent_stacks_offer(cache, site);
        dp_recent_stacks_offer(cache, site);
    }
    dp_stack_cache_end(cache);
    if (is_recent && !same(&recent, r)) {
        printf("turn %lu, depth %u: a recent stack is another\n", (unsigned long)m->turn, m->depth);
        show("recent      ", &recent);
        show("of the cache", r);
        exit(1);
    }
    m->n_recent += is_recent;
}

static bool is_right(const struct result *r, const struct result *plain)
{
    if (memcmp(r->pcs, plain->pcs, plain->n * sizeof *r->pcs))
        return false;
    return plain->elsewhere ? r->n >= plain->n : r->n == plain->n && r->end == plain->end;
}

static __thread sigjmp_buf out;
static __thread volatile sig_atomic_t may_leave;

static void compare(struct model *m, const struct deltaprof_site *site)
{
    struct result with, without, plain;
    bool left = m->interrupted && sigsetjmp(out, 0);
    m->n_left += left;
    may_leave = m->interrupted && !left;
    profiler_walk(m, m->with, false, site, &with);
    may_leave = 0;
    if (with.known && !left && !same_frames(&with, &m->last)) { /* left: perhaps after the walk was complete */
        printf("turn %lu, depth %u: another stack has the record of the last one\n", (unsigned long)m->turn, m->depth);
        exit(1);
    }
    m->n_known += with.known;
    m->last = with;
    profiler_walk(m, m->without, true, site, &without);
    plain_walk(m, site, &plain);
    if (!is_right(&without, &plain) || !same(&with, &without)) {
        printf("turn %lu, depth %u: they differ\n", (unsigned long)m->turn, m->depth);
        show("with a stack cache", &with);
        show("without    ", &without);
        show("plain      ", &plain);
        exit(1);
    }
    m->n_walks++;
    m->n_frames += plain.n;
    m->n_whole += plain.end == DP_WALK_WHOLE;
}

/* Unmaps a page with a frame of the strand, if that is possible, or maps it again. */
static void punch(struct model *m, const struct strand *strand, uintptr_t sp)
{
    uintptr_t page = m->hole;
    if (!page) {
        page = strand->calls[below(m, strand->n)].sp & ~(uintptr_t)(PAGE - 1);
        const struct area *area = area_of(m, page);
        if (!area || area == &m->areas[0] || !area->mapped || sp - page < PAGE)
            return;
    }
    if (mprotect((void *)page, PAGE, m->hole ? PROT_READ | PROT_WRITE : PROT_NONE))
        abort();
    m->hole = m->hole ? 0 : page;
}

static void play(struct model *m, uint64_t n_turns)
{
    int now = 0;
    for (m->turn = 0; m->turn < n_turns; m->turn++) {
        if (!m->areas[now].mapped || below(m, 50) == 0)
            now = below(m, 2) ? 0 : (int)below(m, AREAS - 1);
        if (!m->areas[now].mapped) {
            remap(m, now);
            continue;
        }
        struct strand *strand = &m->strands[now];
        for (unsigned n = below(m, 3); n > 0 && m->areas[now].mapped; n--)
            change(m, strand, now);
        const struct call *top = &strand->calls[strand->n - 1];
        const struct area *area = area_of(m, top->sp);
        if (!area || !area->mapped)
            begin_strand(m, now = 0);
        top = &m->strands[now].calls[m->strands[now].n - 1];
        struct deltaprof_site site = {top->pc, top->sp, below(m, 16) ? top->fp : some_fp(m)};
        if (below(m, 200) == 0) { /* any function, at an edge of readable memory */
            area = &m->areas[below(m, AREAS)];
            site.pc = code(m, below(m, N_SHAPES));
            site.sp = below(m, 2) ? area->lo + 8 * below(m, 4) : area->hi - 8 * (1 + below(m, 4));
            if (!area->mapped)
                continue;
        }
        if (below(m, 8) == 0)
            punch(m, &m->strands[now], site.sp);
        compare(m, &site);
        if (m->hole)
            punch(m, &m->strands[now], site.sp);
    }
}

static void build(struct model *m, uintptr_t *own, uint64_t seed, unsigned depth)
{
    memset(m, 0, sizeof *m);
    m->seed = seed;
    m->depth = depth;
    m->generation = generation;
    m->with = calloc(1, dp_unwind_scratch_bytes());
    m->without = calloc(1, dp_unwind_scratch_bytes());
    m->areas[0] = (struct area){(uintptr_t)own, (uintptr_t)(own + OWN_WORDS), true};
    for (int i = 1; i < AREAS; i++) { /* unreadable on both sides */
        char *at = mmap(NULL, AREA_BYTES + 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uintptr_t lo = ((uintptr_t)at + 2 * PAGE - 1) & ~(uintptr_t)(PAGE - 1);
        m->mapped[i] = at;
        m->areas[i] = (struct area){lo, lo + AREA_BYTES, false};
    }
    for (int i = 1; i < AREAS; i++)
        remap(m, i);
    begin_strand(m, 0);
}

static void unbuild(struct model *m)
{
    for (int i = 1; i < AREAS; i++)
        munmap(m->mapped[i], AREA_BYTES + 3 * PAGE);
    free(m->with);
    free(m->without);
}

static uint64_t n_turns = 400000, first_seed = 88172645463325252u;

static void on_alarm(int number)
{
    if (may_leave) {
        may_leave = 0;
        siglongjmp(out, 1);
    }
}

static void run(uint64_t seed, unsigned depth, uint64_t turns, bool alone, bool interrupted)
{
    uintptr_t own[OWN_WORDS];
    static __thread struct model m;
    memset(own, 0, sizeof own);
    build(&m, own, seed, depth);
    m.interrupted = interrupted;
    m.alone = alone;
    play(&m, turns);
    printf("depth %3u: %lu walks, %.1f frames each, %.0f %% whole, %lu left by longjmp, %lu unchanged, %lu recent\n",
           depth, (unsigned long)m.n_walks, (double)m.n_frames / (double)m.n_walks,
           100.0 * (double)m.n_whole / (double)m.n_walks, (unsigned long)m.n_left, (unsigned long)m.n_known,
           (unsigned long)m.n_recent);
    if (depth > 20 && (m.n_frames < 10 * m.n_walks || m.n_whole < m.n_walks / 8 || m.n_recent < m.n_walks / 100)) {
        printf("these stacks show too little\n");
        exit(1);
    }
    unbuild(&m);
}

static void *thread(void *seed)
{
    run(*(uint64_t *)seed, DEPTH_MAX, n_turns / 8, false, false);
    return NULL;
}

static void set_up(unsigned depth, size_t cache_bytes)
{
    if (dp_unwind_init(DP_UNWIND_AUTO, depth, cache_bytes))
        exit(2);
}

int main(int argc, char **argv)
{
    static const unsigned depths[] = {1, 2, 7, 24, DEPTH_MAX};
    if (argc > 1)
        n_turns = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    make_shapes();
    if ((size_t)(walk_model_code_end - walk_model_code) != N_SHAPES * CODE || dp_frames_init(64 << 20))
        return 2;
    for (int i = 0; i < 5; i++) {
        set_up(depths[i], i % 2 ? 4096 : 1 << 20); /* the small one has room for 256 rows */
        run(first_seed + (uint64_t)i, depths[i], depths[i] < 20 ? n_turns / 8 : n_turns / 4, true, false);
    }

    struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_NODEFER};
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval often = {{0, 61}, {0, 61}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    run(first_seed + 5, DEPTH_MAX, n_turns / 8, true, true);
    setitimer(ITIMER_REAL, &never, NULL);

    set_up(DEPTH_MAX, 4096); /* threads share the rows */
    pthread_t threads[3];
    uint64_t seeds[3];
    for (int i = 0; i < 3; i++) {
        seeds[i] = first_seed + 6 + (uint64_t)i;
        pthread_create(&threads[i], NULL, thread, &seeds[i]);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
