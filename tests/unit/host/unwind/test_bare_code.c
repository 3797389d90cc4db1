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
enum { CALL_BYTES = 5, STEP_BYTES = 1, AFTER_CODE = 0xf4 /* hlt */ };
static bool is_call(uintptr_t at, uintptr_t *target)
{
    int32_t distance;
    memcpy(&distance, (const void *)(at + 1), sizeof distance);
    *target = at + CALL_BYTES + (uintptr_t)distance;
    return *(const uint8_t *)at == 0xe8 && *target % 16 == 0;
}
#else
enum { CALL_BYTES = 4, STEP_BYTES = 4, AFTER_CODE = 0 /* udf */ };
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

/* Code of a few instructions, followed from one of its bytes. */
static enum dp_bare_code_end follow(const void *bytes, size_t n_bytes, size_t from, bool is_sure,
                                    struct dp_cfi_row *row)
{
    static _Alignas(8) uint8_t memory[64];
    memset(memory, AFTER_CODE, sizeof memory);
    memcpy(memory, bytes, n_bytes);
    struct dp_bare_code code = {
        .start = (uintptr_t)memory, .end = (uintptr_t)memory + sizeof memory, .is_sure = is_sure};
    *row = (struct dp_cfi_row){0};
    return dp_bare_code_follow(&code, (uintptr_t)memory + from, false, row);
}

#if defined(__x86_64__)
#include "bare_code_x86.h"
#else
#include "bare_code_arm.h"
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
