/* SPDX-License-Identifier: MIT */
/* The futex call in a program's code: small ELF files with the call at the edges of their segments, of files and of
 * code. */
#include <stdbool.h>
#include "support/unit.h"
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "binary/futex_calls.h"

#if defined(__x86_64__)
static const uint8_t number[] = {0xb8, 0xca, 0, 0, 0}, enter[] = {0x0f, 0x05};
#else
static const uint8_t number[] = {0x48, 0x0c, 0x80, 0xd2}, enter[] = {0x01, 0, 0, 0xd4};
#endif

enum { CODE = 256, CODE_BYTES = 128, NEAR = 32 };

static struct file {
    Elf64_Ehdr head;
    Elf64_Phdr segments[2];
    uint8_t padding[CODE - sizeof(Elf64_Ehdr) - 2 * sizeof(Elf64_Phdr)];
    uint8_t code[CODE_BYTES];
} file;

static bool has_call(size_t n_bytes)
{
    char path[64];
    int fd = memfd_create("program", 0);
    assert_int_equal(write(fd, &file, n_bytes), n_bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool has = dp_binary_makes_futex_calls(path);
    close(fd);
    return has;
}

/* A file whose second segment is code; the call stands at `at`, with `gap` bytes between its two instructions. */
static int begin(size_t at, size_t gap)
{
    memset(&file, 0, sizeof file);
    memcpy(file.head.e_ident, ELFMAG, SELFMAG);
    file.head.e_ident[EI_CLASS] = ELFCLASS64;
    file.head.e_phoff = sizeof file.head;
    file.head.e_phnum = 2;
    file.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_offset = CODE, .p_filesz = CODE_BYTES};
    file.segments[1] =
        (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = CODE, .p_filesz = CODE_BYTES};
    memcpy(&file.code[at], number, sizeof number);
    memcpy(&file.code[at + sizeof number + gap], enter, sizeof enter);
    return 0;
}

TEST(a_call_is_found_anywhere_in_the_code)
{
    for (size_t at = 0; at <= CODE_BYTES - sizeof number - sizeof enter; at++) {
        begin(at, 0);
        assert_true(has_call(sizeof file));
    }
    begin(8, NEAR - sizeof enter);
    assert_true(has_call(sizeof file));
    begin(8, NEAR - sizeof enter + 1);
    assert_false(has_call(sizeof file));
}

TEST(half_a_call_is_none)
{
    begin(8, 0);
    memset(&file.code[8], 0, sizeof number);
    assert_false(has_call(sizeof file));
    begin(CODE_BYTES - sizeof number - sizeof enter, 0);
    assert_false(has_call(sizeof file - 1)); /* the file ends before the code does */
    file.segments[1].p_filesz = CODE_BYTES - 1;
    assert_false(has_call(sizeof file));
    file.segments[1].p_filesz = UINT64_MAX;
    assert_true(has_call(sizeof file));
}

TEST(only_segments_of_code_count)
{
    begin(8, 0);
    file.segments[1].p_flags = PF_R | PF_W;
    assert_false(has_call(sizeof file));
    begin(8, 0);
    file.segments[1].p_type = PT_NOTE;
    assert_false(has_call(sizeof file));
    begin(8, 0);
    file.segments[1].p_offset = sizeof file + 1;
    assert_false(has_call(sizeof file));
    begin(8, 0);
    file.head.e_phnum = 1; /* the second segment is none */
    assert_false(has_call(sizeof file));
}

TEST(other_files_make_no_calls)
{
    assert_false(dp_binary_makes_futex_calls("/no/where"));
    begin(8, 0);
    file.head.e_ident[0] = 'E';
    assert_false(has_call(sizeof file));
    begin(8, 0);
    file.head.e_ident[EI_CLASS] = ELFCLASS32;
    assert_false(has_call(sizeof file));
    begin(8, 0);
    file.head.e_phoff = sizeof file + 1;
    assert_false(has_call(sizeof file));
    for (size_t n_bytes = 0; n_bytes < CODE + 8 + sizeof number + sizeof enter; n_bytes++) {
        begin(8, 0);
        assert_false(has_call(n_bytes));
    }
}

UNIT(NULL, NULL)
