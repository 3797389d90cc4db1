/* SPDX-License-Identifier: MIT */
/* Rules that are read from code: against the unwind data that libc's and this program's code have. */
#include "host/unwind/bare_code.h"
#include "host/unwind/instruction.h"
#include "host/unwind/rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

struct table {
    struct dp_cfi cfi;
    uintptr_t start, end; /* of its code */
};

static struct table of_libc;

static int find(struct dl_phdr_info *info, size_t n_bytes, void *ctx)
{
    uintptr_t hdr = 0, inside = (uintptr_t)dlsym(RTLD_DEFAULT, "getauxval"), start = 0, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_GNU_EH_FRAME)
            hdr = at;
        if (p->p_type == PT_LOAD && inside - at < p->p_memsz) {
            start = at;
            end = at + p->p_memsz;
        }
    }
    if (!start || !hdr)
        return 0;
    uint32_t n;
    memcpy(&n, (const void *)(hdr + 8), sizeof n); /* {version and encodings, .eh_frame, number of entries, entries} */
    of_libc = (struct table){{hdr, (const int32_t *)(hdr + 12), n, hdr, hdr + (4 << 20)}, start, end};
    for (int i = 0; i < info->dlpi_phnum; i++) { /* the segment that has the table */
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && hdr - info->dlpi_addr - p->p_vaddr < p->p_memsz) {
            of_libc.cfi.start = info->dlpi_addr + p->p_vaddr;
            of_libc.cfi.end = of_libc.cfi.start + p->p_memsz;
        }
    }
    return 1;
}

static struct dp_bare_code libc_code(void)
{
    static const char *const names[] = {
        "exit", "_exit", "abort", "longjmp", "pthread_exit", "__assert_fail", "__stack_chk_fail", "__libc_fatal"};
    struct dp_bare_code code = {.start = of_libc.start, .end = of_libc.end};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uintptr_t function = (uintptr_t)dlsym(RTLD_DEFAULT, names[i]);
        if (function)
            code.ends[code.n_ends++] = function;
    }
    return code;
}

#if defined(__x86_64__)
enum { CALL_BYTES = 5, STEP_BYTES = 1 };
static bool is_call(uintptr_t at, uintptr_t *target)
{
    int32_t distance;
    memcpy(&distance, (const void *)(at + 1), sizeof distance);
    *target = at + CALL_BYTES + (uintptr_t)distance;
    return *(const uint8_t *)at == 0xe8 && *target % 16 == 0;
}
#else
enum { CALL_BYTES = 4, STEP_BYTES = 4 };
static bool is_call(uintptr_t at, uintptr_t *target)
{
    uint32_t code;
    memcpy(&code, (const void *)at, sizeof code);
    *target = at + (uintptr_t)((int32_t)(code << 6) >> 6) * 4;
    return code >> 26 == 0x25;
}
#endif

/* Every call in libc: where its return address leads to, and what the unwind data say. */
static void calls_return_to_where_the_unwind_data_say(void **state)
{
    struct dp_bare_code code = libc_code();
    uint32_t n_same = 0, n_other = 0, n_unknown = 0;
    for (uint32_t i = 0; i + 1 < of_libc.cfi.n_fdes; i++) {
        uintptr_t from = of_libc.cfi.hdr + (uintptr_t)of_libc.cfi.fdes[2 * i],
                  to = of_libc.cfi.hdr + (uintptr_t)of_libc.cfi.fdes[2 * i + 2];
        for (uintptr_t at = from; at + CALL_BYTES <= to && to - from < 4096; at += STEP_BYTES) {
            struct dp_cfi_row row, read = {0};
            uintptr_t target, lookup_pc = at + CALL_BYTES - 1;
            if (!is_call(at, &target) || target < code.start || target >= code.end ||
                dp_cfi_find(&of_libc.cfi, target, &row) <= 0 || row.start != target ||
                dp_cfi_find(&of_libc.cfi, lookup_pc, &row) <= 0)
                continue; /* no call of a function */
            uint32_t rule = dp_rule_make(&row, lookup_pc);
            if (dp_rule_kind(rule) != DP_RULE_SP && dp_rule_kind(rule) != DP_RULE_FP)
                continue;
            if (dp_bare_code_follow(&code, at + CALL_BYTES, true, &read) != DP_BARE_CODE_RETURNS)
                n_unknown++;
            else if (dp_rule_make(&read, lookup_pc) == rule)
                n_same++;
            else
                n_other++;
        }
    }
    print_message("%u the same, %u another one, %u unknown\n", n_same, n_other, n_unknown);
    assert_true(n_same > 1000);
    assert_true(n_other * 20 < n_same);
    assert_true(n_unknown * 2 < n_same); /* calls of functions that never return, of which libc has many */
#if defined(__aarch64__)
    assert_int_equal(n_other, 0);
#endif
}

#if defined(__x86_64__)

/* no operand, two bytes, operands of memory */
static bool is_padding(uintptr_t pc)
{
    static const char *const starts[] = {"\x90", "\x66\x90", "\x0f\x1f", "\x66\x0f\x1f", "\x66\x2e\x0f\x1f"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (memcmp((const void *)pc, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* The number of bytes up to the next instruction that is no padding, which is never run; 0: it is not known. */
static uintptr_t bytes_of(uintptr_t pc)
{
    struct dp_instruction i;
    uintptr_t at = pc;
    do {
        if (!dp_instruction_decode((const uint8_t *)at, &i))
            return 0;
        at += i.n_bytes;
    } while (is_padding(at));
    return at - pc;
}

/*
 * Whether two rules lead to the same caller although they differ: in a frame that both registers lead to, the stack
 * pointer does, too; and until it is changed, or after it was loaded again, the frame pointer is the caller's.
 */
static bool are_equal(uint32_t read, uint32_t rule)
{
    if (dp_rule_kind(read) == DP_RULE_SP && dp_rule_kind(rule) == DP_RULE_FP)
        return dp_rule_offset(rule) == 16 && dp_rule_slot(read) == dp_rule_slot(rule);
    return dp_rule_kind(read) == dp_rule_kind(rule) && dp_rule_offset(read) == dp_rule_offset(rule) &&
           (dp_rule_slot(read) == dp_rule_slot(rule) || !dp_rule_slot(read));
}

#else

static uintptr_t bytes_of(uintptr_t pc)
{
    return STEP_BYTES;
}

/*
 * Whether two rules lead to the same caller although they differ: where a register was stored, and behind the load of
 * it, the register and the stack have its value; behind mov sp, x29 both registers lead to the frame.
 */
static bool are_equal(uint32_t read, uint32_t rule)
{
    if (dp_rule_offset(read) != dp_rule_offset(rule))
        return false;
    if (dp_rule_kind(read) == dp_rule_kind(rule))
        return read == rule || dp_rule_ra(read) == DP_RULE_RA_LINK || dp_rule_ra(rule) == DP_RULE_RA_LINK;
    return dp_rule_kind(read) == DP_RULE_SP && dp_rule_kind(rule) == DP_RULE_FP &&
           dp_rule_slot(read) == dp_rule_slot(rule) && dp_rule_ra(read) == dp_rule_ra(rule);
}

#endif

/* Every instruction of every eighth function in libc, also without the names of functions that never return. */
static void interrupted_code_returns_to_where_the_unwind_data_say(void **state)
{
    struct dp_bare_code code = {.start = of_libc.start, .end = of_libc.end, .is_sure = true};
    uint32_t n_same = 0, n_other = 0, n_unknown = 0;
    for (uint32_t i = 0; i + 1 < of_libc.cfi.n_fdes; i += 8) {
        uintptr_t from = of_libc.cfi.hdr + (uintptr_t)of_libc.cfi.fdes[2 * i],
                  to = of_libc.cfi.hdr + (uintptr_t)of_libc.cfi.fdes[2 * i + 2];
        for (uintptr_t pc = from, n_bytes; pc < to && to - from < 16384 && (n_bytes = bytes_of(pc)); pc += n_bytes) {
            struct dp_cfi_row row, read = {0};
            if (dp_cfi_find(&of_libc.cfi, pc, &row) <= 0)
                continue;
            uint32_t rule = dp_rule_make(&row, pc), kind = dp_rule_kind(rule);
            if ((kind != DP_RULE_SP && kind != DP_RULE_FP) || row.signal)
                continue;
            if (dp_bare_code_follow(&code, pc, false, &read) != DP_BARE_CODE_RETURNS)
                n_unknown++;
            else if (are_equal(dp_rule_make(&read, pc), rule))
                n_same++;
            else
                n_other++;
        }
    }
    print_message("%u the same, %u another one, %u unknown\n", n_same, n_other, n_unknown);
    assert_true(n_same > 10000);
#if defined(__aarch64__)
    assert_int_equal(n_other, 0);
    assert_true(n_unknown * 8 < n_same);
#else
    assert_true(n_other * 1000 < n_same); /* some assembly of libc pushes without unwind data */
    assert_true(n_unknown < n_same);
#endif
}

#if defined(__x86_64__)

/* Code of a few bytes, followed from its n-th byte. */
static enum dp_bare_code_end follow(const char *bytes, size_t n_bytes, size_t from, struct dp_cfi_row *row)
{
    static uint8_t memory[64];
    memset(memory, 0xf4, sizeof memory);
    memcpy(memory, bytes, n_bytes);
    struct dp_bare_code code = {.start = (uintptr_t)memory, .end = (uintptr_t)memory + sizeof memory};
    *row = (struct dp_cfi_row){0};
    return dp_bare_code_follow(&code, (uintptr_t)memory + from, false, row);
}

#define FOLLOW(bytes, from, row) follow(bytes, sizeof bytes - 1, from, row)

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

/* The same code, followed without calls, as that of any file is. */
static enum dp_bare_code_end follow_surely(const char *bytes, size_t n_bytes, size_t from, struct dp_cfi_row *row)
{
    static uint8_t memory[64];
    memset(memory, 0xf4, sizeof memory);
    memcpy(memory, bytes, n_bytes);
    struct dp_bare_code code = {.start = (uintptr_t)memory, .end = (uintptr_t)memory + sizeof memory, .is_sure = true};
    *row = (struct dp_cfi_row){0};
    return dp_bare_code_follow(&code, (uintptr_t)memory + from, false, row);
}

static void a_frame_that_is_not_made_yet_is_not_passed(void **state)
{
    /* test; je; push %rbp; mov %rsp, %rbp; push %rbx; call; mov -8(%rbp), %rbx; leave; ret */
    static const char code[] = "\x85\xff\x74\x0e\x55\x48\x89\xe5\x53\xe8\0\0\0\0\x48\x8b\x5d\xf8\xc9\xc3";
    static const size_t pcs[] = {0, 2, 4, 5}, offsets[] = {8, 8, 8, 16};
    struct dp_cfi_row row;
    for (size_t i = 0; i < sizeof pcs / sizeof *pcs; i++) {
        assert_int_equal(follow_surely(code, sizeof code - 1, pcs[i], &row), DP_BARE_CODE_RETURNS);
        assert_int_equal(row.reg, DP_REG_SP);
        assert_int_equal(row.offset, offsets[i]);
        assert_int_equal(row.fp.how, DP_SAVED_SAME);
    }
    assert_int_equal(follow_surely(code, sizeof code - 1, 8, &row), DP_BARE_CODE_UNKNOWN); /* a call follows */
    assert_int_equal(follow_surely(code, sizeof code - 1, 14, &row), DP_BARE_CODE_RETURNS);
    assert_int_equal(row.reg, DP_REG_FP);
    assert_int_equal(row.offset, 16);
    assert_int_equal(follow_surely(code, sizeof code - 1, 19, &row), DP_BARE_CODE_RETURNS);
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

#else

/* Code of a few instructions, followed from one of them. */
static enum dp_bare_code_end follow(const uint32_t *instructions, size_t n_bytes, size_t from, struct dp_cfi_row *row)
{
    static uint32_t memory[16];
    memset(memory, 0, sizeof memory);
    memcpy(memory, instructions, n_bytes);
    struct dp_bare_code code = {.start = (uintptr_t)memory, .end = (uintptr_t)memory + sizeof memory};
    *row = (struct dp_cfi_row){0};
    return dp_bare_code_follow(&code, (uintptr_t)(memory + from), false, row);
}

#define FOLLOW(instructions, from, row) follow(instructions, sizeof instructions, from, row)

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

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_return_to_where_the_unwind_data_say),
        cmocka_unit_test(a_frame_is_what_is_taken_off_until_the_return),
        cmocka_unit_test(a_frame_pointer_leads_to_the_frame),
        cmocka_unit_test(the_other_side_of_a_jump_is_tried),
        cmocka_unit_test(code_that_never_returns_has_no_caller),
        cmocka_unit_test(interrupted_code_returns_to_where_the_unwind_data_say),
#if defined(__x86_64__)
        cmocka_unit_test(a_frame_that_is_not_made_yet_is_not_passed),
        cmocka_unit_test(a_frame_pointer_that_is_pushed_later_is_the_callers),
#else
        cmocka_unit_test(a_large_frame_is_taken_off_by_a_number_in_a_register),
        cmocka_unit_test(registers_that_are_stored_later_still_have_the_callers_values),
        cmocka_unit_test(a_last_call_through_a_register_returns_to_the_caller),
        cmocka_unit_test(a_path_does_not_go_on_into_another_function),
        cmocka_unit_test(each_instruction_does_what_the_manual_says),
#endif
    };
    if (!dl_iterate_phdr(find, NULL))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
