/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <string.h>

#include "tool/pgo/write.h"

/* Stands for the lines module: a line table of two functions, of which one is also inlined into the other. */
static const struct run {
    uintptr_t start, end, function_start, function_end;
    struct dp_symbol_line lines[2];
    int n;
} runs[] = {
    {0x100, 0x110, 0x100, 0x150, {{"outer", "outer", "f.c", 10, 10, 0}}, 1},
    {0x110, 0x120, 0x100, 0x150, {{"inner", "inner", "f.c", 103, 100, 0}, {"outer", "outer", "f.c", 12, 10, 0}}, 2},
    {0x120, 0x130, 0x100, 0x150, {{"outer", "outer", "f.c", 10, 10, 0}}, 1}, /* the first line again */
    {0x130, 0x140, 0x100, 0x150, {{"outer", "outer", "f.c", 14, 10, 3 << 1}}, 1},
    {0x140, 0x150, 0x100, 0x150, {{"outer", "outer", "f.c", 20, 10, 0}}, 1}, /* has no sample */
    {0x200, 0x210, 0x200, 0x220, {{"inner()", "inner.cold", "f.c", 105, 100, 0}}, 1},
    {0x400, 0x410, 0x400, 0x450, {{"one.llvm.7.cold", "one.llvm.7.cold", "f.c", 7, 7, 0}}, 1},
    {0x410, 0x420, 0x400, 0x450, {{"one.part.0.cold.llvm.7", "one.part.0.cold.llvm.7", "f.c", 7, 7, 0}}, 1},
    {0x420, 0x430, 0x400, 0x450, {{".cold", ".cold", "f.c", 7, 7, 0}}, 1},
    {0x210, 0x220, 0x200, 0x220, {{"inner()", NULL, "f.c", 0, 0, 0}}, 1}, /* its line is not known */
};

static const struct run *run_at(uintptr_t pc)
{
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (pc >= runs[i].start && pc < runs[i].end)
            return &runs[i];
    return NULL;
}

static int lookup(void *session, int handle, uintptr_t pc, struct dp_symbol_line *lines, int max)
{
    const struct run *run = run_at(pc);
    for (int i = 0; run && i < run->n && i < max; i++)
        lines[i] = run->lines[i];
    return run ? run->n : 0;
}

static int ranges(void *session, int handle, uintptr_t pc, struct dp_symbol_ranges *to)
{
    const struct run *run = run_at(pc);
    if (run)
        *to = (struct dp_symbol_ranges){run->start, run->end, run->function_start, run->function_end};
    return run ? 0 : -ENOENT;
}

static const struct dp_symbolize_ops ops = {.lookup = lookup, .ranges = ranges};

static void add(struct dp_pgo_samples *s, uint64_t address, int64_t n)
{
    struct dp_pgo_address *at = dp_vec_push(&s->at);
    assert_non_null(at);
    *at = (struct dp_pgo_address){address, n};
    s->n = INT64_MAX - n < s->n ? INT64_MAX : s->n + n;
}

static struct dp_pgo_samples samples_of_all(void)
{
    struct dp_pgo_samples s = {.names = {.ops = &ops}};
    add(&s, 0x100, 2);
    add(&s, 0x11f, 5);
    add(&s, 0x120, 1);
    add(&s, 0x12f, 1);
    add(&s, 0x130, 4);
    add(&s, 0x200, 7);
    add(&s, 0x210, 6);
    add(&s, 0x300, 3);
    return s;
}

static char text[1000];
static size_t n_text;

static int append(void *ctx, const void *bytes, size_t n)
{
    assert_true(n < sizeof text - n_text);
    memcpy(text + n_text, bytes, n);
    n_text += n;
    text[n_text] = 0;
    return 0;
}

static int refuse(void *ctx, const void *bytes, size_t n)
{
    ++*(int *)ctx;
    return -ENOSPC;
}

TEST(a_function_has_all_its_lines_and_their_sums)
{
    struct dp_pgo_samples s = samples_of_all();
    struct dp_pgo_profile p = {.first = 0};
    assert_int_equal(dp_pgo_profile_make(&p, &s), 0);
    assert_int_equal(p.n_lost, 6 + 3);
    n_text = 0;
    assert_int_equal(dp_pgo_write_clang(&p, append, NULL), 0);
    assert_string_equal(text, "inner:7000:7000\n"
                              " 5: 7000\n"
                              "outer:13000:4000\n"
                              " 0: 4000\n"
                              " 4.3: 4000\n"
                              " 10: 0\n"
                              " 2: inner:5000\n"
                              "  3: 5000\n");
    int n_calls = 0;
    assert_int_equal(dp_pgo_write_clang(&p, refuse, &n_calls), -ENOSPC);
    assert_int_equal(n_calls, 1);
    dp_pgo_profile_fini(&p);
    dp_pgo_samples_fini(&s);
}

TEST(the_first_suffix_of_a_compiler_ends_a_name)
{
    struct dp_pgo_samples s = {.names = {.ops = &ops}};
    struct dp_pgo_profile p = {.first = 0};
    add(&s, 0x400, 2);
    add(&s, 0x410, 3);
    add(&s, 0x420, 4); /* all of its name: it stays */
    assert_int_equal(dp_pgo_profile_make(&p, &s), 0);
    n_text = 0;
    assert_int_equal(dp_pgo_write_clang(&p, append, NULL), 0);
    assert_string_equal(text, ".cold:4000:0\n 0: 4000\none:5000:5000\n 0: 5000\n");
    dp_pgo_profile_fini(&p);
    dp_pgo_samples_fini(&s);
}

TEST(samples_are_summed_from_start_to_before_end)
{
    struct dp_pgo_samples s = samples_of_all();
    assert_int_equal(dp_pgo_samples_sum(&s, 0, UINT64_MAX), s.n);
    assert_int_equal(dp_pgo_samples_sum(&s, 0x100, 0x120), 7);
    assert_int_equal(dp_pgo_samples_sum(&s, 0x101, 0x121), 6);
    assert_int_equal(dp_pgo_samples_sum(&s, 0x120, 0x120), 0);
    assert_int_equal(dp_pgo_samples_sum(&s, 0x301, UINT64_MAX), 0);
    dp_pgo_samples_fini(&s);
    assert_int_equal(dp_pgo_samples_sum(&s, 0, UINT64_MAX), 0);
}

TEST(bolt_gets_each_address)
{
    struct dp_pgo_samples s = {.n = 0};
    add(&s, 0x1234abcd, 1);
    add(&s, UINT64_MAX, INT64_MAX);
    n_text = 0;
    assert_int_equal(dp_pgo_write_bolt(&s, append, NULL), 0);
    assert_string_equal(text, "E cycles\nS 1234abcd 1\nS ffffffffffffffff 9223372036854775807\n");
    dp_pgo_samples_fini(&s);
}

UNIT(NULL, NULL)
