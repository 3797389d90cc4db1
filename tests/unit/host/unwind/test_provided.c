/* SPDX-License-Identifier: MIT */
/* Frames of runtimes in a walked stack: where each run goes, by its anchor or by its code, with one runtime and with
 * two. */
#include "support/unit.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "host/api/recording.h"
#include "host/objects/functions.h"
#include "host/unwind/provided.h"

#include <deltaprof/frames.h>

enum { DEPTH = 16, RUNS_MAX = 8, EVAL = 0x500000, OTHER = 0x600000, CODE_BYTES = 0x100 };

/* What a provider gives: runs of n frames, by anchor, by code, or by both. */
struct runtime {
    uint32_t n_runs;
    struct given {
        uint32_t n;
        uintptr_t anchor, code;
    } runs[RUNS_MAX];
    int n_counted; /* frames of EVAL that it saw */
    bool is_interrupted;
};
static struct runtime first, second, anywhere;

static uint32_t function(const void *runtime, uint32_t i)
{
    char name[32];
    snprintf(name, sizeof name, "%s%u", runtime == &first ? "f" : runtime == &second ? "s" : "a", i);
    return deltaprof_function_find(&(struct deltaprof_function){.name = name, .n_name = (uint32_t)strlen(name)});
}

static void gives(void *ctx, struct deltaprof_frames *out)
{
    struct runtime *runtime = ctx;
    uint32_t i = 0;
    runtime->n_counted = deltaprof_frames_count_code(out, (void *)(uintptr_t)EVAL, CODE_BYTES);
    runtime->is_interrupted = deltaprof_frames_interrupted(out);
    for (uint32_t run = 0; run < runtime->n_runs; run++) {
        const struct given *given = &runtime->runs[run];
        for (uint32_t n = 0; n < given->n; n++, i++)
            deltaprof_frames_push(out, function(ctx, i), 7);
        if (given->code)
            deltaprof_frames_anchor_code(out, (void *)given->code, CODE_BYTES, (void *)given->anchor);
        else if (given->anchor)
            deltaprof_frames_anchor(out, (void *)given->anchor);
    }
}

/* Frame i covers [0x1000 + 0x100 * i, + 0x100). Letters: e and o are code of the two loops, others are native
 * functions. */
static struct dp_frame_ids {
    dp_frame_id at[DEPTH];
    uintptr_t sps[DEPTH];
} walked;

static struct dp_native_stack stack_of(const char *letters)
{
    uint32_t n = 0;
    for (; letters[n]; n++) {
        uint64_t pc = letters[n] == 'e'   ? EVAL + 0x10
                      : letters[n] == 'o' ? OTHER + 0x10
                                          : 0x1000u * (unsigned char)letters[n];
        walked.at[n] = dp_frame_intern(pc);
        walked.sps[n] = 0x1000 + 0x100 * (uintptr_t)n;
    }
    return (struct dp_native_stack){.ids = walked.at, .depth = n, .sps = walked.sps};
}

/* The merged stack as text: letters of native frames, names of the others. */
static const char *merged(const struct dp_native_stack *native, unsigned depth, bool *cut)
{
    static struct dp_stack_cache_frame stage[DEPTH + 1];
    static dp_frame_id ids[DEPTH];
    static char text[256];
    struct dp_stack_cache cache = {.stage = stage, .stage_ids = ids};
    struct dp_stack out;
    char *at = text;
    *cut = false;
    if (!dp_provided_merge(&cache, native, 0x1000, depth, &out))
        return "";
    for (uint32_t i = 0; i < out.depth; i++) {
        uint32_t k = 0;
        while (k < native->depth && native->ids[k] != out.frames[i])
            k++;
        if (k < native->depth) {
            const struct dp_frame *frame = dp_frame_get(out.frames[i]);
            at += sprintf(at, "%c",
                          frame->pc >> 20 == EVAL >> 20    ? 'e'
                          : frame->pc >> 20 == OTHER >> 20 ? 'o'
                                                           : (char)(frame->pc >> 12));
            continue;
        }
        const void *const runtimes[] = {&first, &second, &anywhere};
        for (uint32_t n = 0; n < 3 * DEPTH; n++)
            if (out.frames[i] == dp_frame_intern_named(dp_function_frame(function(runtimes[n % 3], n / 3), 7)))
                at += sprintf(at, " %c%u ", "fsa"[n % 3], n / 3);
    }
    *at = 0;
    *cut = out.cut;
    return text;
}

static void assert_merged(const char *letters, const char *expected)
{
    bool cut;
    struct dp_native_stack native = stack_of(letters);
    assert_string_equal(merged(&native, DEPTH, &cut), expected);
    assert_false(cut);
}

static int begin(void **state)
{
    struct dp_config conf;
    dp_config_init(&conf);
    int err = dp_record_init(&conf);
    assert_false(dp_provided_any());
    assert_int_equal(deltaprof_frames_provide(gives, &first), 0);
    assert_int_equal(deltaprof_frames_provide(gives, &second), 0);
    assert_int_equal(deltaprof_frames_provide_anywhere(gives, &anywhere), 0);
    assert_int_equal(deltaprof_frames_provide(gives, &second), -EEXIST);
    assert_true(dp_provided_any());
    return err;
}

static int clear(void **state)
{
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    memset(&anywhere, 0, sizeof anywhere);
    return 0;
}

TEST_WITH(clear, NULL, without_frames_the_walked_stack_stays)
{
    assert_merged("abc", "");
    first = (struct runtime){.n_runs = 1, .runs = {{0, 0x1180, 0}}};
    assert_merged("abc", "");
}

TEST_WITH(clear, NULL, a_run_takes_the_place_of_the_frame_that_its_anchor_lies_in)
{
    first = (struct runtime){.n_runs = 1, .runs = {{2, 0x1100, 0}}};
    assert_merged("abc", "a f0  f1 c");
    first.runs[0].anchor = 0x11ff;
    assert_merged("abc", "a f0  f1 c");
    first.runs[0].anchor = 0x10ff;
    assert_merged("abc", " f0  f1 bc");
    first = (struct runtime){.n_runs = 2, .runs = {{1, 0x1000, 0}, {2, 0x1110, 0}}};
    assert_merged("abc", " f0  f1  f2 c");
}

TEST_WITH(clear, NULL, runs_of_a_code_take_its_frames_in_their_order_however_many)
{
    first = (struct runtime){
        .n_runs = 6, .runs = {{1, 0, EVAL}, {1, 0, EVAL}, {1, 0, EVAL}, {1, 0, EVAL}, {1, 0, EVAL}, {1, 0, EVAL}}};
    uint64_t apart = dp_stats_read(DP_STAT_FRAMES_APART);
    assert_merged("aebecedeexem", "a f0 b f1 c f2 d f3  f4 x f5 m");
    assert_int_equal(dp_stats_read(DP_STAT_FRAMES_APART), apart);
    assert_int_equal(first.n_counted, 6);
    assert_int_equal(second.n_counted, 6);
}

TEST_WITH(clear, NULL, two_runtimes_have_their_own_code)
{
    first = (struct runtime){.n_runs = 2, .runs = {{1, 0, EVAL}, {1, 0, EVAL}}};
    second = (struct runtime){.n_runs = 1, .runs = {{2, 0, OTHER}}};
    assert_merged("aebecodm", "a f0 b f1 c s0  s1 dm");
    assert_int_equal(second.n_counted, 2);
}

/* Code that is not met before the frame of the anchor: the anchor tells the place. */
TEST_WITH(clear, NULL, a_code_is_not_looked_for_beyond_the_anchor)
{
    first = (struct runtime){.n_runs = 1, .runs = {{1, 0x1150, EVAL}}};
    assert_merged("abce", "a f0 ce");
    first.runs[0].anchor = 0x1250;
    assert_merged("aebc", "a f0 bc");
}

TEST_WITH(clear, NULL, frames_beyond_the_walk_are_appended_and_counted)
{
    uint64_t apart = dp_stats_read(DP_STAT_FRAMES_APART);
    first = (struct runtime){.n_runs = 2, .runs = {{1, 0x1010, 0}, {2, 0x5000, 0}}};
    second = (struct runtime){.n_runs = 1, .runs = {{1, 0, OTHER}}};
    assert_merged("abc", " f0 bc f1  f2  s0 ");
    assert_int_equal(dp_stats_read(DP_STAT_FRAMES_APART), apart + 3);
    struct dp_native_stack native = stack_of("abc");
    bool cut;
    native.cut = true; /* they may belong to what was cut off */
    assert_string_equal(merged(&native, DEPTH, &cut), " f0 bc f1  f2  s0 ");
    assert_true(cut);
    assert_int_equal(dp_stats_read(DP_STAT_FRAMES_APART), apart + 3);
    assert_int_equal(first.n_counted, -1);
}

TEST_WITH(clear, NULL, a_deep_stack_is_cut_at_its_depth)
{
    bool cut;
    struct dp_native_stack native = stack_of("abcd");
    first = (struct runtime){.n_runs = 1, .runs = {{2, 0x1100, 0}}};
    assert_string_equal(merged(&native, 5, &cut), "a f0  f1 cd");
    assert_false(cut);
    assert_string_equal(merged(&native, 4, &cut), "a f0  f1 c");
    assert_true(cut);
    first.runs[0].n = 4;
    assert_string_equal(merged(&native, 4, &cut), "a f0  f1  f2 ");
    assert_true(cut);
}

TEST_WITH(clear, NULL, an_interrupted_thread_is_asked_about_by_some_only)
{
    bool cut;
    struct dp_native_stack native = stack_of("abc");
    native.interrupted = true;
    first = (struct runtime){.n_runs = 1, .runs = {{1, 0x1010, 0}}};
    anywhere = (struct runtime){.n_runs = 1, .runs = {{1, 0x1110, 0}}};
    assert_string_equal(merged(&native, DEPTH, &cut), "a a0 c");
    assert_true(anywhere.is_interrupted);
    native.interrupted = false;
    assert_string_equal(merged(&native, DEPTH, &cut), " f0  a0 c");
    assert_false(anywhere.is_interrupted);
}

UNIT(begin, NULL)
