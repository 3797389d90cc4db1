/* SPDX-License-Identifier: MIT */
/* bare_code_arm.h - instructions of aarch64, one case each. Part of test_bare_code.c. */
#pragma once

#define FOLLOW(instructions, from, row) follow(instructions, sizeof instructions, 4 * (from), false, row)

static void a_frame_is_what_is_taken_off_until_the_return(void **state)
{
    static const uint32_t code[] = {0xa9be7bfd, 0x910003fd, 0x94000000, 0xa8c27bfd, 0xd65f03c0},
                          link[] = {0xd10083ff, 0xf9000bfe, 0x94000000, 0xf9400bfe, 0x910083ff, 0xd65f03c0};
    struct dp_cfi_row row;
    /* stp x29, x30, [sp, -32]!; mov x29, sp; bl; ldp x29, x30, [sp], 32; ret */
    assert_int_equal(FOLLOW(code, 2, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.reg, DP_REG_SP);
    assert_int_equal(row.offset, 32);
    assert_int_equal(row.fp.how, DP_SAVED_OFFSET);
    assert_int_equal(row.fp.offset, -32);
    assert_int_equal(row.ra.offset, -24);
    for (size_t from = 0; from <= 4; from += 4) { /* before the store, and behind the load */
        assert_int_equal(FOLLOW(code, from, &row), DP_BARE_CODE_RETURNS);
        assert_int_equal(row.offset, 0);
        assert_int_equal(row.fp.how, DP_SAVED_SAME);
        assert_int_equal(row.ra.how, DP_SAVED_SAME);
    }
    /* sub sp, sp, 32; str x30, [sp, 16]; bl; ldr x30, [sp, 16]; add sp, sp, 32; ret */
    assert_int_equal(FOLLOW(link, 2, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.offset, 32);
    assert_int_equal(row.fp.how, DP_SAVED_SAME);
    assert_int_equal(row.ra.offset, -16);
}

static void a_frame_pointer_leads_to_the_frame(void **state)
{
    static const uint32_t code[] = {0x94000000, 0x910003bf, 0xa8c27bfd, 0xd65f03c0},
                          own[] = {0x910003fd, 0xd10043ff, 0x910003bf, 0xd65f03c0};
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(code, 0, &row), DP_BARE_CODE_RETURNS); /* bl; mov sp, x29; ldp x29, x30, [sp], 32; ret */
    assert_int_equal(row.reg, DP_REG_FP);
    assert_int_equal(row.offset, 32);
    assert_int_equal(row.ra.offset, -24);
    assert_int_equal(FOLLOW(own, 0, &row), DP_BARE_CODE_RETURNS); /* mov x29, sp; sub sp, sp, 16; mov sp, x29; ret */
    assert_int_equal(row.reg, DP_REG_SP);
    assert_int_equal(row.offset, 0);
}

static void the_other_side_of_a_jump_is_tried(void **state)
{
    static const uint32_t loop[] = {0xb4000040, 0x14000000, 0xf84107fe, 0xd65f03c0};
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(loop, 0, &row), DP_BARE_CODE_RETURNS); /* cbz x0, 2; b 0; ldr x30, [sp], 16; ret */
    assert_int_equal(row.offset, 16);
    assert_int_equal(row.ra.offset, -16);
}

/* mov x12, 7664; sub sp, sp, x12; stp x29, x30, [sp]; bl; mov x12, 7664; ldp x29, x30, [sp]; add sp, sp, x12; ret */
static void a_large_frame_is_taken_off_by_a_number_in_a_register(void **state)
{
    static const uint32_t code[] = {0xd283be0c, 0xcb2c63ff, 0xa9007bfd, 0x94000000,
                                    0xd283be0c, 0xa9407bfd, 0x8b2c63ff, 0xd65f03c0},
                          other[] = {0xd283be0c, 0xaa0103ec, 0x8b2c63ff, 0xd65f03c0}; /* mov x12, x1 between */
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(code, 3, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.offset, 7664);
    assert_int_equal(row.ra.offset, -7656);
    assert_int_equal(FOLLOW(code, 0, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.offset, 0);
    assert_int_equal(row.ra.how, DP_SAVED_SAME);
    assert_int_equal(FOLLOW(other, 0, &row), DP_BARE_CODE_UNKNOWN);
}

/* sub sp, sp, 48; nop; stp x29, x30, [sp, 16]; bl; ldp x29, x30, [sp, 16]; add sp, sp, 48; ret */
static void registers_that_are_stored_later_still_have_the_callers_values(void **state)
{
    static const uint32_t code[] = {0xd100c3ff, 0xd503201f, 0xa9017bfd, 0x94000000, 0xa9417bfd, 0x9100c3ff, 0xd65f03c0};
    struct dp_cfi_row row;
    for (size_t from = 1; from <= 2; from++) {
        assert_int_equal(FOLLOW(code, from, &row), DP_BARE_CODE_RETURNS);
        assert_int_equal(row.offset, 48);
        assert_int_equal(row.ra.how, DP_SAVED_SAME);
        assert_int_equal(row.fp.how, DP_SAVED_SAME);
    }
    assert_int_equal(FOLLOW(code, 3, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.ra.offset, -24);
}

static void a_last_call_through_a_register_returns_to_the_caller(void **state)
{
    static const uint32_t code[] = {0x94000000, 0xa8c27bfd, 0xd61f0200}, /* bl; ldp x29, x30, [sp], 32; br x16 */
        plt[] = {0x90000010, 0xf9400211, 0x91000210, 0xd61f0220},        /* adrp; ldr; add; br x17 */
        moved[] = {0xaa0203f0, 0xd61f0200},                              /* mov x16, x2; br x16 */
        unknown[] = {0xf9400001, 0xd61f0020, 0xa8c27bfd, 0xd65f03c0},    /* ldr x1, [x0]; br x1; ... */
        cases[] = {0x8b238823, 0xd61f0060, 0xa8c27bfd, 0xd65f03c0};      /* add x3, x1, w3, sxtb 2; br x3; ... */
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(code, 0, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.offset, 32);
    for (size_t from = 0; from < 4; from++) {
        assert_int_equal(FOLLOW(plt, from, &row), DP_BARE_CODE_RETURNS);
        assert_int_equal(row.offset, 0);
        assert_int_equal(row.ra.how, DP_SAVED_SAME);
    }
    assert_int_equal(FOLLOW(moved, 0, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.ra.how, DP_SAVED_SAME);
    assert_int_equal(FOLLOW(unknown, 0, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(FOLLOW(cases, 0, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.offset, 32);
}

/* A function ends in a call of one that never returns; behind it another one begins. */
static void a_path_does_not_go_on_into_another_function(void **state)
{
    static const uint32_t framed[] = {0x94000000, 0xa9be7bfd, 0x910003fd, 0x94000000, 0xa8c27bfd, 0xd65f03c0},
                          leaf[] = {0x94000000, 0x8b000020, 0xd65f03c0}; /* bl; add x0, x1, x0; ret */
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(framed, 0, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(FOLLOW(leaf, 0, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(FOLLOW(leaf, 1, &row), DP_BARE_CODE_RETURNS);
}

/* One instruction, or a few, and what the stack pointer is above its value at the first one; -1: not known. */
static void each_instruction_does_what_the_manual_says(void **state)
{
    static const uint32_t ret = 0xd65f03c0;
    static const struct {
        uint32_t code[5];
        int64_t wanted;
    } rows[] = {
        {{0x914007ff, ret}, 4096},                          /* add sp, sp, 1, lsl 12 */
        {{0x913fffff, ret}, 4095},                          /* add sp, sp, 4095 */
        {{0xd14007ff, 0x915007ff, ret}, 1024 * 4096},       /* sub sp, sp, 1, lsl 12; add sp, sp, 1025, lsl 12 */
        {{0xb10043ff, ret}, 0},                             /* adds xzr, sp, 16: cmn */
        {{0x110043ff, ret}, -1},                            /* add wsp, wsp, 16 */
        {{0x910043fe, ret}, -1},                            /* add x30, sp, 16 */
        {{0xd2a0002c, 0xf280020c, 0x8b2c63ff, ret}, 65552}, /* movz x12, 1, lsl 16; movk x12, 16; add sp, sp, x12 */
        {{0xd280020c, 0xf280040d, 0x8b2c63ff, ret}, 16},    /* movz x12, 16; movk x13, 32; add sp, sp, x12 */
        {{0xd280020c, 0x8b02002d, 0x8b2c63ff, ret}, 16},    /* movz x12, 16; add x13, x1, x2; add sp, sp, x12 */
        {{0xd280020c, 0x8b02002c, 0x8b2c63ff, ret}, -1},    /* movz x12, 16; add x12, x1, x2; add sp, sp, x12 */
        {{0xd280020c, 0xa940302d, 0x8b2c63ff, ret}, -1},    /* movz x12, 16; ldp x13, x12, [x1]; add sp, sp, x12 */
        {{0xd280020c, 0xa940382d, 0x8b2c63ff, ret}, 16},    /* movz x12, 16; ldp x13, x14, [x1]; add sp, sp, x12 */
        {{0x9281ffec, 0xcb2c63ff, ret}, 4096},              /* movn x12, 4095; sub sp, sp, x12 */
        {{0xd280020c, 0x8b2c67ff, ret}, -1},                /* movz x12, 16; add sp, sp, x12, lsl 1 */
        {{0xd280020c, 0x0b2c63ff, ret}, -1},                /* movz x12, 16; add wsp, wsp, w12 */
        {{0xd280021d, 0x8b3d63ff, ret}, -1},                /* movz x29, 16; add sp, sp, x29 */
        {{0xf8410fe0, ret}, 16},                            /* ldr x0, [sp, 16]! */
        {{0xf84107e0, ret}, 16},                            /* ldr x0, [sp], 16 */
        {{0xf94007e0, ret}, 0},                             /* ldr x0, [sp, 8] */
        {{0xa8c107e0, ret}, 16},                            /* ldp x0, x1, [sp], 16 */
        {{0xa9c107e0, ret}, 16},                            /* ldp x0, x1, [sp, 16]! */
        {{0xa94107e0, ret}, 0},                             /* ldp x0, x1, [sp, 16] */
        {{0x6cc127e8, ret}, 16},                            /* ldp d8, d9, [sp], 16 */
        {{0xadc107e0, ret}, 32},                            /* ldp q0, q1, [sp, 32]! */
        {{0x3cc107e0, ret}, 16},                            /* ldr q0, [sp], 16 */
        {{0x28c207e0, ret}, 16},                            /* ldp w0, w1, [sp], 16 */
        {{0xd65f0bff}, 0},                                  /* retaa */
        {{0xd65f0fff}, 0},                                  /* retab */
        {{0xd65f0020, ret}, -1},                            /* ret x1 */
        {{0xd69f03e0, ret}, -1},                            /* eret */
    };
    struct dp_cfi_row row;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool returns = FOLLOW(rows[i].code, 0, &row) == DP_BARE_CODE_RETURNS;
        if (returns != (rows[i].wanted >= 0) || (returns && row.offset != rows[i].wanted))
            print_message("row %zu: %d, %lld\n", i, returns, (long long)row.offset);
        assert_int_equal(returns, rows[i].wanted >= 0);
        assert_true(!returns || row.offset == rows[i].wanted);
    }
    struct dp_bare_code code = {.start = (uintptr_t)&ret, .end = (uintptr_t)&ret + sizeof ret};
    assert_int_equal(dp_bare_code_follow(&code, (uintptr_t)&ret, false, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(dp_bare_code_follow(&code, (uintptr_t)&ret + 2, false, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(dp_bare_code_follow(&code, (uintptr_t)&ret + 4, false, &row), DP_BARE_CODE_UNKNOWN);
}

static void code_that_never_returns_has_no_caller(void **state)
{
    static const uint32_t breaks[] = {0xd503201f, 0xd4200000}, loops[] = {0x14000000},
                          aligns[] = {0x927ced1f, 0xd65f03c0}, /* and sp, x8, -16 */
        restores[] = {0xa9457c1d, 0xd65f03c0};                 /* ldp x29, xzr, [x0, 80], as longjmp */
    struct dp_cfi_row row;
    assert_int_equal(FOLLOW(breaks, 0, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(FOLLOW(loops, 0, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(FOLLOW(aligns, 0, &row), DP_BARE_CODE_UNKNOWN);
    assert_int_equal(FOLLOW(restores, 0, &row), DP_BARE_CODE_UNKNOWN);
}
