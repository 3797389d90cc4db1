/* SPDX-License-Identifier: MIT */
/*
 * host/thread/thread.c - the pool of scratch blocks: assigns blocks to threads.
 *
 * A block holds the frame buffer and the stack cache of a thread, which are too large for TLS. Their number is limited
 * by `memory`. A thread that gets one keeps it until its end, when the destructor of a pthread key returns it. The
 * first N_WARM blocks then keep their pages: a server that has a thread for each request takes them again and again.
 * The last quarter of the blocks is only lent, for one event, to threads that came too late, have no key, or are past
 * their key's destructor. If all of those are lent, the thread waits for its turn, for a few milliseconds at most: a
 * block is lent for the time of one walk, unless its thread was stopped or left the walk by longjmp. If no block came
 * back since a thread last waited in vain, no other thread waits. A thread without a block records only the leaf.
 *
 * The key must be one of the first 32, whose values stand in the thread's own descriptor: pthread_setspecific calls
 * calloc for later ones, which is forbidden inside a malloc hook.
 *
 * A thread that keeps a block with a number below DP_SHARDS_OWN is also the only writer of that shard of the striped
 * counters, and needs no locked add there.
 *
 * A lent block is stored in the key too: if a longjmp leaves the walk, the block is not returned, and the thread keeps
 * it until its end.
 *
 * Hooks may run while the pool is made. `blocks` is stored last, with release, and loaded first, with acquire [POOL]:
 * else a thread could find the blocks and a key of 0, which is another's, and overwrite its value.
 *
 * A guard that outlived its hook. A fiber may leave a thread in the middle of malloc and go on in another; then nothing
 * ends the first thread's guard. The guard has the stack pointer of its hook. A nested event lies at most NESTED_BYTES
 * below it, so an event from any other place proves that the hook is not below the event on this stack: the guard ends.
 * The fiber may come back, and then its events lie where nested ones would. So a guard mutes NESTED_MOST events and
 * then ends; it counts them in its own word, so that each guard begins with 0 at no cost. If an end was wrong (a
 * handler on a signal stack, an allocator that runs far down), an allocation inside an allocation is counted, and no
 * more happens: the hook restores the countdown at its end. It is different where the library itself was left in the
 * middle (DP_GUARD_BUSY), because the fiber goes on writing to this thread's block. Handlers are the usual reason
 * there, so only DOUBTS_MAX such events are a proof, and the thread then gives the block up.
 *
 * Bits of `used` are set with acquire and cleared with release [BLOCK]: else the next owner could write the block
 * before the last owner's stores are visible. A claim that loses a race is tried a few times; then the thread goes
 * without a block. A signal handler that interrupts set_up finds SETTING_UP and borrows a block.
 */
#include "host/thread/thread.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/process.h"
#include "host/thread/sigstack.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N_BLOCKS_MAX   512u
#define CLAIM_TRIES    32
#define KEYS_IN_THREAD 32 /* glibc's PTHREAD_KEY_2NDLEVEL_SIZE */
#define FRESH_BYTES    64
#define N_WARM         16u
#define N_OWN_IDS      64u
#define NESTED_BYTES   (16u << 10)
#define NESTED_MOST    63
#define DOUBTS_MAX     64
#define TURN_YIELDS    50
#define TURN_SLEEPS    50
#define TURN_SLEEP_NS  100000

__thread struct deltaprof_thread deltaprof_thread DELTAPROF_TLS_MODEL;

static struct {
    char *_Atomic blocks; /* NULL before init */
    size_t block_bytes;
    unsigned n_kept, n_blocks; /* [0, n_kept) are kept, [n_kept, n_blocks) lent */
    pthread_key_t key;
    bool have_key;
    _Atomic uint64_t used[N_BLOCKS_MAX / 64];
    _Atomic uint32_t n_returned; /* lent blocks that came back; relaxed, as the next two: they publish nothing */
    _Atomic uint32_t in_vain;    /* n_returned + 1 when a thread last waited in vain; 0: none has */
    _Atomic bool no_turns;
} pool;

static _Atomic uint32_t n_threads;
static void (*_Atomic at_end)(void); /* relaxed: it needs nothing that init maps later */

static unsigned block_number(const void *block)
{
    const char *blocks = dp_load_relaxed(&pool.blocks); /* it was found with acquire when the block was claimed */
    return (unsigned)((size_t)((const char *)block - blocks) / pool.block_bytes);
}

static void *claim(char *blocks, unsigned from, unsigned to)
{
    int tries = CLAIM_TRIES;
    for (unsigned word = from / 64; word * 64 < to; word++) {
        uint64_t bits = dp_load_relaxed(&pool.used[word]);
        uint64_t wanted = ~(uint64_t)0;
        if (word == from / 64)
            wanted &= ~(uint64_t)0 << (from % 64);
        if (to - word * 64 < 64)
            wanted &= ((uint64_t)1 << (to - word * 64)) - 1;
        while ((~bits & wanted) && tries-- > 0) {
            unsigned bit = (unsigned)__builtin_ctzll(~bits & wanted);
            if (dp_cas_acquire(&pool.used[word], &bits, bits | (uint64_t)1 << bit)) /* [BLOCK] */
                return blocks + (size_t)(word * 64 + bit) * pool.block_bytes;
        }
    }
    return NULL;
}

static void release_block(void *block)
{
    unsigned number = block_number(block);
    dp_and_release(&pool.used[number / 64], ~((uint64_t)1 << (number % 64))); /* [BLOCK] */
}

/* The key's destructor. Later destructors may still allocate: those events borrow a block. */
static void thread_ends(void *block)
{
    struct dp_thread *self = dp_thread_self();
    bool reads = self->reads[0] || self->reads[1];
    if (reads && self->state != DP_THREAD_ENDING && !pthread_setspecific(pool.key, block)) {
        self->state = DP_THREAD_ENDING; /* a destructor of another key may unlock them: ends after all those */
        return;
    }
    self->state = DP_THREAD_ENDED;
    void (*fn)(void) = dp_load_relaxed(&at_end);
    if (fn)
        fn();
    self->own = 0;
    self->scratch = NULL;
    dp_fence_signal();
    if (!dp_thread_sigstack_remove())
        return; /* the thread ends on its signal stack: no other thread may get that stack, so the block is lost too */
    int saved = errno;
    if (block_number(block) < N_WARM)
        memset(block, 0, FRESH_BYTES);
    else
        madvise(block, pool.block_bytes, MADV_DONTNEED); /* gives the pages back; the block then reads as zeros */
    errno = saved;
    release_block(block);
}

int dp_thread_init(size_t block_bytes, size_t budget_bytes)
{
    pool.block_bytes = dp_page_ceil(block_bytes);
    size_t n = budget_bytes / pool.block_bytes;
    pool.n_blocks = n < 2 ? 2 : n > N_BLOCKS_MAX ? N_BLOCKS_MAX : (unsigned)n;
    char *blocks = dp_mem_table(pool.n_blocks * pool.block_bytes);
    if (!blocks)
        return -ENOMEM;
    pool.n_kept = 0; /* without a key no block can be returned, so all are only lent */
    if (!pthread_key_create(&pool.key, thread_ends)) {
        pool.have_key = pool.key < KEYS_IN_THREAD;
        if (pool.have_key)
            pool.n_kept = pool.n_blocks - (pool.n_blocks + 3) / 4;
        else
            pthread_key_delete(pool.key);
    }
    dp_store_release(&pool.blocks, blocks); /* [POOL] */
    return 0;
}

void dp_thread_at_end(void (*fn)(void))
{
    dp_store_relaxed(&at_end, fn);
}

/* Without the clock: a thread's first event may come where reading the time stamp counter kills. */
static uint64_t new_seed(const struct dp_thread *thread)
{
    uint64_t seed = (uint64_t)(uintptr_t)thread ^ (uint64_t)dp_process_pid() << 48;
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t word = 0;
    if (random)
        memcpy(&word, random, sizeof word);
    return dp_hash_mix(seed ^ word) + dp_hash_mix(thread->number);
}

static void set_up(struct dp_thread *thread, unsigned n_kept)
{
    if (!thread->number)
        thread->number = dp_add_relaxed(&n_threads, 1) + 1;
    if (!thread->random.state)
        dp_thread_random_seed(&thread->random, new_seed(thread) | 1);
    char *blocks = dp_load_acquire(&pool.blocks); /* [POOL] */
    if (!blocks || thread->ours)
        return;
    thread->state = DP_THREAD_SETTING_UP;
    dp_fence_signal();
    void *block = pool.have_key ? claim(blocks, 0, n_kept < pool.n_kept ? n_kept : pool.n_kept) : NULL;
    if (block && pthread_setspecific(pool.key, block)) {
        release_block(block);
        block = NULL;
    }
    if (block) {
        thread->scratch = block;
        thread->own = block_number(block) < DP_SHARDS_OWN ? (uint8_t)(block_number(block) + 1) : 0;
        dp_thread_sigstack_install(block_number(block));
    }
    dp_fence_signal();
    thread->state = block || n_kept == N_BLOCKS_MAX ? DP_THREAD_READY : DP_THREAD_NEW;
}

void dp_thread_set_up_slow(struct dp_thread *thread)
{
    set_up(thread, N_BLOCKS_MAX);
}

void dp_thread_start(void)
{
    struct dp_thread *self = dp_thread_self();
    if (self->state == DP_THREAD_NEW && dp_thread_sigstack_is_wanted())
        set_up(self, DP_SIGSTACKS);
}

void dp_thread_never_wait(void)
{
    dp_store_relaxed(&pool.no_turns, true);
}

/* System calls that no program interposes and that are no cancellation points. */
static void pause_for_turn(int i)
{
    static const struct timespec sleep = {0, TURN_SLEEP_NS};
    int saved = errno;
    if (i < TURN_YIELDS)
        syscall(SYS_sched_yield);
    else
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &sleep, NULL);
    errno = saved;
}

static void *claim_lent(char *blocks)
{
    void *block = claim(blocks, pool.n_kept, pool.n_blocks);
    uint32_t returned = dp_load_relaxed(&pool.n_returned);
    if (block || dp_load_relaxed(&pool.no_turns) || dp_load_relaxed(&pool.in_vain) == returned + 1)
        return block;
    for (int i = 0; !block && i < TURN_YIELDS + TURN_SLEEPS; i++) {
        pause_for_turn(i);
        block = claim(blocks, pool.n_kept, pool.n_blocks);
    }
    if (!block)
        dp_store_relaxed(&pool.in_vain, dp_load_relaxed(&pool.n_returned) + 1);
    return block;
}

bool dp_thread_borrow_slow(void)
{
    struct dp_thread *self = dp_thread_self();
    dp_thread_set_up(self);
    char *blocks = dp_load_acquire(&pool.blocks); /* [POOL] */
    if (self->scratch || !blocks)
        return false;
    void *block = claim_lent(blocks);
    if (!block)
        return false;
    memset(block, 0, FRESH_BYTES);
    if (pool.have_key && !pthread_getspecific(pool.key)) /* not set by a set_up that this event interrupted */
        pthread_setspecific(pool.key, block);
    self->scratch = block;
    return true;
}

void dp_thread_return_slow(void)
{
    struct dp_thread *self = dp_thread_self();
    void *block = self->scratch;
    self->scratch = NULL;
    dp_fence_signal();
    if (!block) /* given up, because of doubts that were wrong */
        return;
    if (pool.have_key && pthread_getspecific(pool.key) == block)
        pthread_setspecific(pool.key, NULL);
    release_block(block);
    dp_add_relaxed(&pool.n_returned, 1);
}

uint64_t dp_thread_random(void)
{
    struct dp_thread *self = dp_thread_self();
    dp_thread_set_up(self);
    return dp_thread_random_next(&self->random);
}

/* The last threads that were marked. Relaxed: an id is looked for long after it was stored. */
static _Atomic int32_t own_ids[N_OWN_IDS];
static _Atomic uint32_t n_own_ids;

void dp_thread_mark_own(void)
{
    struct dp_thread *self = dp_thread_self();
    self->ours = 1;
    dp_thread_guard(self, DELTAPROF_GUARD_KEPT);
    dp_store_relaxed(&own_ids[dp_add_relaxed(&n_own_ids, 1) % N_OWN_IDS], (int32_t)syscall(SYS_gettid));
}

static _Atomic int32_t *own_id(int32_t tid)
{
    for (unsigned i = 0; i < N_OWN_IDS; i++)
        if (dp_load_relaxed(&own_ids[i]) == tid)
            return &own_ids[i];
    return NULL;
}

bool dp_thread_is_own_id(int32_t tid)
{
    return own_id(tid);
}

void dp_thread_unmark_own_id(int32_t tid)
{
    _Atomic int32_t *id = own_id(tid);
    if (id)
        dp_store_relaxed(id, 0);
}

bool dp_thread_is_nested_slow(struct dp_thread *thread, uintptr_t sp)
{
    uintptr_t guard = thread->guard, place = guard & DP_GUARD_PLACE & ~DP_GUARD_BUSY;
    bool is_near = place - sp < NESTED_BYTES;
    if (guard == DELTAPROF_GUARD_KEPT || (is_near && guard & DP_GUARD_BUSY))
        return true;
    if (is_near && guard / DP_GUARD_NESTED < NESTED_MOST) {
        thread->guard = guard + DP_GUARD_NESTED;
        return true;
    }
    if (guard & DP_GUARD_BUSY) {
        if (++thread->doubts < DOUBTS_MAX)
            return true;
        thread->doubts = 0;
        thread->scratch = NULL;
        thread->own = 0;
        thread->state = DP_THREAD_NEW;
    }
    dp_thread_undraw(thread);
    return false;
}

DP_IN_CHILD void dp_thread_fork_child(uint64_t salt)
{
    struct dp_thread *self = dp_thread_self();
    uint64_t mine[N_BLOCKS_MAX / 64] = {0};
    if (self->scratch) {
        unsigned number = block_number(self->scratch);
        mine[number / 64] = (uint64_t)1 << (number % 64);
    }
    for (unsigned i = 0; i < N_BLOCKS_MAX / 64; i++)
        dp_store_relaxed(&pool.used[i], mine[i]);
    if (self->random.state)
        self->random.state ^= dp_hash_mix(salt);
    if (!dp_thread_guarded(self))
        dp_thread_undraw(self);
}
