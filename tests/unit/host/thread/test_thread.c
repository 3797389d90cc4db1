/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/thread/thread.h"

#define BLOCK  (16 << 10)
#define FRESH  64
#define BLOCKS 8 /* six are kept, two lent */

static int start(void **state)
{
    return dp_thread_init(BLOCK, BLOCKS * BLOCK);
}

/* Threads that set up, tell what they got, and wait until all may end. */
#define THREADS 12
static struct got {
    void *block;
    unsigned shard;
    int error;
    bool fresh; /* the part of the block that thread.h names is zero */
} got[THREADS];
static pthread_barrier_t all_in, all_out;

static void *take(void *arg)
{
    struct got *mine = arg;
    struct dp_thread *self = dp_thread_self();
    errno = 77;
    dp_thread_set_up(self);
    mine->block = dp_thread_scratch();
    mine->shard = dp_thread_shard(self);
    mine->fresh = true;
    for (int i = 0; mine->block && i < FRESH; i++)
        mine->fresh &= !((char *)mine->block)[i];
    if (mine->block)
        memset(mine->block, 0x5A, BLOCK);
    mine->error = errno;
    pthread_barrier_wait(&all_in);
    pthread_barrier_wait(&all_out);
    return NULL;
}

static unsigned run_threads(void)
{
    pthread_t threads[THREADS];
    unsigned n_blocks = 0;
    memset(got, 0, sizeof got);
    pthread_barrier_init(&all_in, NULL, THREADS + 1);
    pthread_barrier_init(&all_out, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take, &got[i]), 0);
    pthread_barrier_wait(&all_in);
    for (int i = 0; i < THREADS; i++) {
        n_blocks += got[i].block != NULL;
        assert_int_equal(got[i].error, 77);
        assert_true(got[i].fresh);
        assert_true(got[i].shard < DP_SHARDS);
        for (int k = 0; k < i; k++) {
            assert_true(!got[i].block || got[i].block != got[k].block);
            assert_true(got[i].shard >= DP_SHARDS_OWN || got[i].shard != got[k].shard);
        }
    }
    pthread_barrier_wait(&all_out);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return n_blocks;
}

/* Both lent blocks are with these threads until main wants a block. */
static _Atomic bool wants;

static void *lends(void *unused)
{
    bool held = dp_thread_borrow();
    pthread_barrier_wait(&all_in);
    while (!wants)
        ;
    dp_thread_return(held);
    return unused;
}

TEST(a_spare_record_is_of_its_kind)
{
    enum { OTHER = 3 }; /* shares the slot of kind 0 */
    dp_thread_keep_spare(0, 7);
    dp_thread_keep_spare(1, DP_THREAD_SPARE_MAX);
    assert_int_equal(dp_thread_take_spare(OTHER), 0);
    assert_int_equal(dp_thread_take_spare(0), 7);
    assert_int_equal(dp_thread_take_spare(0), 0);
    dp_thread_keep_spare(0, 8);
    dp_thread_keep_spare(OTHER, 9);
    assert_int_equal(dp_thread_take_spare(0), 0);
    assert_int_equal(dp_thread_take_spare(OTHER), 9);
    assert_int_equal(dp_thread_take_spare(1), DP_THREAD_SPARE_MAX);
    assert_int_equal(dp_thread_take_spare(1), 0);
}

TEST(blocks_and_shards_have_one_owner_and_come_back_fresh)
{
    for (int round = 0; round < 20; round++)
        assert_int_equal(run_threads(), 6);
}

static void *borrow(void *arg)
{
    void **blocks = arg;
    struct dp_thread *self = dp_thread_self();
    self->state = DP_THREAD_ENDED; /* as after its key's destructor */
    bool held = dp_thread_borrow();
    *blocks = dp_thread_scratch();
    pthread_barrier_wait(&all_in);
    pthread_barrier_wait(&all_out);
    assert_int_equal(held, *blocks != NULL);
    dp_thread_return(held);
    assert_null(dp_thread_scratch());
    return NULL;
}

/* The threads may be kept from running for longer than main waits, so not every round succeeds. */
TEST(a_thread_waits_for_its_turn)
{
    enum { ROUNDS = 40, LENT = 2 };
    struct dp_thread *self = dp_thread_self(), saved = *self;
    pthread_t keepers[THREADS], threads[LENT];
    int n_got = 0;
    pthread_barrier_init(&all_in, NULL, THREADS - LENT + 1);
    pthread_barrier_init(&all_out, NULL, THREADS - LENT + 1);
    for (int i = 0; i < THREADS - LENT; i++)
        pthread_create(&keepers[i], NULL, take, &got[i]);
    pthread_barrier_wait(&all_in); /* no block can be kept any more */
    pthread_barrier_destroy(&all_in);
    pthread_barrier_init(&all_in, NULL, LENT + 1);
    for (int round = 0; round < ROUNDS; round++) {
        wants = false;
        for (int i = 0; i < LENT; i++)
            pthread_create(&threads[i], NULL, lends, NULL);
        pthread_barrier_wait(&all_in);
        self->scratch = NULL;
        self->state = DP_THREAD_READY;
        wants = true;
        bool held = dp_thread_borrow();
        n_got += held && self->scratch;
        dp_thread_return(held);
        for (int i = 0; i < LENT; i++)
            pthread_join(threads[i], NULL);
    }
    assert_true(n_got > ROUNDS / 2);
    *self = saved;
    pthread_barrier_wait(&all_out);
    for (int i = 0; i < THREADS - LENT; i++)
        pthread_join(keepers[i], NULL);
}

/* Its walk is left by longjmp: nothing lets go. */
static void *borrow_and_leave(void *arg)
{
    void **block = arg;
    dp_thread_self()->state = DP_THREAD_ENDED;
    dp_thread_borrow();
    *block = dp_thread_scratch();
    assert_false(dp_thread_borrow()); /* the next event uses it again */
    return NULL;
}

TEST(who_has_no_block_borrows_one_for_an_event)
{
    for (int round = 0; round < 3; round++) {
        pthread_t threads[4];
        void *blocks[4];
        unsigned n = 0;
        pthread_barrier_init(&all_in, NULL, 5);
        pthread_barrier_init(&all_out, NULL, 5);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, borrow, &blocks[i]), 0);
        pthread_barrier_wait(&all_in);
        for (int i = 0; i < 4; i++) {
            n += blocks[i] != NULL;
            for (int k = 0; blocks[i] && k < 64; k++)
                assert_int_equal(((char *)blocks[i])[k], 0);
            if (blocks[i])
                memset(blocks[i], 0x5A, 64);
        }
        assert_int_equal(n, 2); /* the others keep the leaf only */
        pthread_barrier_wait(&all_out);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
}

TEST(a_lent_block_that_a_jump_left_comes_back_with_the_thread)
{
    for (int round = 0; round < 20; round++) { /* more often than there are blocks */
        pthread_t thread;
        void *block = NULL;
        assert_int_equal(pthread_create(&thread, NULL, borrow_and_leave, &block), 0);
        pthread_join(thread, NULL);
        assert_non_null(block);
    }
}

static pthread_key_t later; /* its destructor runs after that of the block's key */
static struct dp_thread seen_later;
static void *lent_later;

static void sees_the_end(void *unused)
{
    (void)unused;
    seen_later = *dp_thread_self();
    bool held = dp_thread_borrow();
    lent_later = dp_thread_scratch();
    dp_thread_return(held);
}

static void *ends_with_a_later_destructor(void *arg)
{
    pthread_setspecific(later, arg);
    return take(arg);
}

/* The lent ones are those of the last word's highest bits: 48 of 64 are kept, 96 of 128. */
TEST(the_last_blocks_of_a_word_are_lent)
{
    for (int n = 64; n <= 192; n += 32) {
        int status = 0;
        pid_t child = fork();
        if (!child) {
            struct dp_thread *self = dp_thread_self();
            if (dp_thread_init(4096, (size_t)n * 4096))
                _exit(1);
            self->state = DP_THREAD_ENDED;
            for (int i = 0; i < n / 4; i++) {
                self->scratch = NULL;
                dp_thread_borrow();
                if (!self->scratch)
                    _exit(2);
            }
            self->scratch = NULL;
            dp_thread_borrow();
            _exit(self->scratch ? 3 : 0);
        }
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        assert_int_equal(status, 0);
    }
}

static void *ours(void *arg)
{
    dp_thread_mark_own();
    deltaprof_guard_reset();
    *(bool *)arg = dp_thread_guarded(dp_thread_self());
    return NULL;
}

TEST(a_later_destructor_finds_neither_block_nor_shard_of_the_thread)
{
    pthread_t thread;
    assert_int_equal(pthread_key_create(&later, sees_the_end), 0);
    pthread_barrier_init(&all_in, NULL, 1);
    pthread_barrier_init(&all_out, NULL, 1);
    assert_int_equal(pthread_create(&thread, NULL, ends_with_a_later_destructor, &got[0]), 0);
    pthread_join(thread, NULL);
    pthread_key_delete(later);
    assert_non_null(got[0].block);
    assert_int_equal(seen_later.state, DP_THREAD_ENDED);
    assert_null(seen_later.scratch);
    assert_int_equal(seen_later.own, 0);
    assert_non_null(lent_later);
    assert_ptr_not_equal(lent_later, got[0].block);
}

TEST(a_thread_of_the_profiler_stays_guarded)
{
    pthread_t thread;
    bool guarded = false;
    assert_int_equal(pthread_create(&thread, NULL, ours, &guarded), 0);
    pthread_join(thread, NULL);
    assert_true(guarded);
    assert_false(dp_thread_guarded(dp_thread_self()));
}

/* Whether the event at sp counts. */
static bool counts(uintptr_t sp)
{
    return !dp_thread_is_nested(dp_thread_self(), sp);
}

TEST(a_guard_ends_at_an_event_that_cannot_be_nested)
{
    struct dp_thread *self = dp_thread_self();
    static const uintptr_t hook = 0x7f0000100000;
    dp_thread_guard(self, hook);
    assert_false(counts(hook - 64));
    assert_true(counts(hook + 64));
    assert_false(dp_thread_guarded(self));
    dp_thread_guard(self, hook);
    assert_true(counts(hook - (1 << 20)));
    dp_thread_guard(self, hook);
    assert_true(counts(hook >> 1));
    dp_thread_undraw(self);
}

/* A fiber left the thread inside a hook, ended that hook on another thread, and came back. */
TEST(a_guard_that_outlived_its_hook_mutes_63_events)
{
    struct dp_thread *self = dp_thread_self();
    static const uintptr_t hook = 0x7f0000100000;
    for (int i = 0; i < 3; i++) {
        int n = 0;
        dp_thread_guard(self, hook);
        while (n < 1000 && !counts(hook - 64))
            n++;
        assert_int_equal(n, 63);
        assert_false(dp_thread_guarded(self));
    }
    dp_thread_undraw(self);
}

/* libunwind unlocks a mutex at each frame. */
TEST(a_walk_mutes_all_nested_events)
{
    struct dp_thread *self = dp_thread_self();
    static const uintptr_t hook = 0x7f0000100000;
    dp_thread_guard(self, hook | DP_GUARD_BUSY);
    for (int i = 0; i < 1000; i++)
        assert_false(counts(hook - 64));
    dp_thread_undraw(self);
}

TEST(a_lent_block_that_was_given_up_is_not_given_back)
{
    struct dp_thread *self = dp_thread_self();
    static const uintptr_t hook = 0x7f0000100000;
    void *own = self->scratch;
    bool held = true;
    dp_thread_guard(self, hook | DP_GUARD_BUSY);
    for (int i = 0; i < 64 && dp_thread_guarded(self); i++)
        counts(hook + 64);
    assert_null(dp_thread_scratch());
    dp_thread_return(held);
    self->scratch = own;
    dp_thread_undraw(self);
}

TEST(a_guard_counts_only_its_own_nested_events)
{
    struct dp_thread *self = dp_thread_self();
    static const uintptr_t hook = 0x7f0000100000;
    for (int i = 0; i < 1000; i++) { /* operator new: one malloc in each, at the same place */
        dp_thread_guard(self, hook);
        assert_false(counts(hook - 64));
        self->guard |= DP_GUARD_BUSY;
        assert_false(counts(hook - 64));
        int64_t kept = deltaprof_guard_enter(); /* a guard that was asked for mutes as many as there are */
        for (int n = 0; n < 200; n++)
            assert_false(counts(hook - 64));
        deltaprof_guard_exit(kept);
        assert_false(counts(hook - 64));
        self->countdown = 1000; /* the hook ends */
    }
    dp_thread_undraw(self);
}

TEST(a_child_gets_the_others_blocks_and_other_draws)
{
    struct dp_thread *self = dp_thread_self();
    dp_thread_set_up(self);
    void *mine = dp_thread_scratch();
    assert_non_null(mine);
    uint64_t before = self->random.state;
    dp_thread_fork_child(1);
    assert_true(self->random.state != before);
    assert_false(self->armed);
    assert_int_equal(deltaprof_thread.countdown, 0);
    assert_ptr_equal(dp_thread_scratch(), mine);
    int64_t kept = deltaprof_guard_enter();
    dp_thread_fork_child(2);
    assert_true(deltaprof_is_guarded());
    deltaprof_guard_exit(kept);
    assert_false(deltaprof_is_guarded());
    assert_int_equal(run_threads(), 5);
}

UNIT(start, NULL)
