/* SPDX-License-Identifier: MIT */
/* Rules that are read from code: against the unwind data that libc's and this program's code have. */
#include "host/unwind/bare_code.h"
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

#if defined(__x86_64__)

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

/* Every call in libc: where its return address leads to, and what the unwind data say. */
static void calls_return_to_where_the_unwind_data_say(void **state)
{
    struct dp_bare_code code = libc_code();
    uint32_t n_same = 0, n_other = 0, n_unknown = 0;
    for (uint32_t i = 0; i + 1 < of_libc.cfi.n_fdes; i++) {
        uintptr_t from = of_libc.cfi.hdr + (uintptr_t)of_libc.cfi.fdes[2 * i],
                  to = of_libc.cfi.hdr + (uintptr_t)of_libc.cfi.fdes[2 * i + 2];
        for (uintptr_t at = from; at + 5 <= to && to - from < 4096; at++) {
            int32_t distance;
            struct dp_cfi_row row, read = {0};
            memcpy(&distance, (const void *)(at + 1), sizeof distance);
            uintptr_t target = at + 5 + (uintptr_t)distance;
            if (*(const uint8_t *)at != 0xe8 || target % 16 || target < code.start || target >= code.end ||
                dp_cfi_find(&of_libc.cfi, target, &row) <= 0 || row.start != target ||
                dp_cfi_find(&of_libc.cfi, at + 4, &row) <= 0)
                continue; /* no call of a function */
            uint32_t rule = dp_rule_make(&row, at + 4);
            if (dp_rule_kind(rule) != DP_RULE_SP && dp_rule_kind(rule) != DP_RULE_FP)
                continue;
            if (dp_bare_code_follow(&code, at + 5, true, &read) != DP_BARE_CODE_RETURNS)
                n_unknown++;
            else if (dp_rule_make(&read, at + 4) == rule)
                n_same++;
            else
                n_other++;
        }
    }
    print_message("%u the same, %u another one, %u unknown\n", n_same, n_other, n_unknown);
    assert_true(n_same > 1000);
    assert_true(n_other * 20 < n_same);
    assert_true(n_unknown * 2 < n_same); /* calls of functions that never return, of which libc has many */
}

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

#endif

int main(void)
{
#if defined(__x86_64__)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_return_to_where_the_unwind_data_say),
        cmocka_unit_test(a_frame_is_what_is_taken_off_until_the_return),
        cmocka_unit_test(a_frame_pointer_leads_to_the_frame),
        cmocka_unit_test(the_other_side_of_a_jump_is_tried),
        cmocka_unit_test(code_that_never_returns_has_no_caller),
    };
    if (!dl_iterate_phdr(find, NULL))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return 77; /* stacks end at such code */
#endif
}
