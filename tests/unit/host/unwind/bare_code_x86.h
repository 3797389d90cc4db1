/* SPDX-License-Identifier: MIT */
/* bare_code_x86.h - instructions of x86_64, one case each. Part of test_bare_code.c. */
#pragma once

#define FOLLOW(bytes, from, row) follow(bytes, sizeof bytes - 1, from, false, row)
/* The same code, followed without calls, as that of any file is. */
#define FOLLOW_SURELY(bytes, from, row) follow(bytes, sizeof bytes - 1, from, true, row)

static void a_frame_is_what_is_taken_off_until_the_return(void **state)
{
    static const char code[] =
        "\x55\x48\x83\xec\x20\xe8\0\0\0\0\x48\x83\xc4\x20\x5d\xc3"; /* push; sub; call; add; pop; ret */
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(code, 10, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.reg, DP_REG_SP);
    assert_int_equal(row.offset, 48);
    assert_int_equal(row.fp.how, DP_SAVED_OFFSET);
    assert_int_equal(row.fp.offset, -16);
    assert_int_equal(FOLLOW(code, 0, &row), DP_BARE_CODE_RETURNS); /* before the push */
    assert_int_equal(row.offset, 8);
    assert_int_equal(row.fp.how, DP_SAVED_SAME);
    assert_int_equal(FOLLOW(code, 15, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.offset, 8);
}

static void a_frame_pointer_leads_to_the_frame(void **state)
{
    static const char leave[] = "\xe8\0\0\0\0\xc9\xc3", lea[] = "\x48\x8d\x65\xf0\x5b\x41\x5c\x5d\xc3";
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(leave, 5, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.reg, DP_REG_FP);
    assert_int_equal(row.offset, 16);
    assert_int_equal(row.fp.offset, -16);
    assert_int_equal(FOLLOW(lea, 0, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.reg, DP_REG_FP);
    assert_int_equal(row.offset, 16);
}

static void a_frame_that_is_not_made_yet_is_not_passed(void **state)
{
    /* test; je; push %rbp; mov %rsp, %rbp; push %rbx; call; mov -8(%rbp), %rbx; leave; ret */
    static const char code[] = "\x85\xff\x74\x0e\x55\x48\x89\xe5\x53\xe8\0\0\0\0\x48\x8b\x5d\xf8\xc9\xc3";
    static const size_t pcs[] = {0, 2, 4, 5}, offsets[] = {8, 8, 8, 16};
    struct dp_cfi_row row;
    for (size_t i = 0; i < sizeof pcs / sizeof *pcs; i++) {
        assert_int_equal(FOLLOW_SURELY(code, pcs[i], &row), DP_BARE_CODE_RETURNS);
        assert_int_equal(row.reg, DP_REG_SP);
        assert_int_equal(row.offset, offsets[i]);
        assert_int_equal(row.fp.how, DP_SAVED_SAME);
    }
    assert_int_equal(FOLLOW_SURELY(code, 8, &row), DP_BARE_CODE_UNKNOWN); /* a call follows */
    assert_int_equal(FOLLOW_SURELY(code, 14, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.reg, DP_REG_FP);
    assert_int_equal(row.offset, 16);
    assert_int_equal(FOLLOW_SURELY(code, 19, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.reg, DP_REG_SP);
    assert_int_equal(row.offset, 8);
}

static void a_frame_pointer_that_is_pushed_later_is_the_callers(void **state)
{
    /* pop %rbx; push %rbp; mov %rsp, %rbp; sub $16, %rsp; leave; ret */
    static const char code[] = "\x5b\x55\x48\x89\xe5\x48\x83\xec\x10\xc9\xc3";
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(code, 0, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.reg, DP_REG_SP);
    assert_int_equal(row.offset, 16);
    assert_int_equal(row.fp.how, DP_SAVED_SAME);
}

static void the_other_side_of_a_jump_is_tried(void **state)
{
    static const char loop[] = "\x74\x02\xeb\xfc\x59\xc3"; /* je +2; a loop without end; pop %rcx; ret */
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(loop, 0, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.offset, 16);
}

static void code_that_never_returns_has_no_caller(void **state)
{
    static const char halts[] = "\x90\xf4", loops[] = "\xeb\xfe", aligns[] = "\x48\x83\xe4\xf0\xc3",
                      vex[] = "\xc5\xf8\x77\xc3";
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(halts, 0, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(FOLLOW(loops, 0, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(FOLLOW(aligns, 0, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(FOLLOW(vex, 0, &row), DP_BARE_CODE_UNKNOWN);
}
