/* SPDX-License-Identifier: MIT */
/* Lists that a compiler at run time may keep for debuggers, also inconsistent ones. Here the test is the compiler. */
#include "support/unit.h"

#include "host/symbols/jit_debug.c"

/* A file with the sections: none, code, symbols, names. */
struct elf {
    Elf64_Ehdr header;
    Elf64_Shdr sections[4];
    Elf64_Sym symbols[3];
    char names[NAME_MAX_BYTES + 32];
};

static struct elf make_file(unsigned type, uintptr_t start)
{
    struct elf f = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                   .e_type = (uint16_t)type,
                   .e_shoff = offsetof(struct elf, sections),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 4},
        .sections = {{0},
                     {.sh_type = SHT_PROGBITS, .sh_addr = 0x100000},
                     {.sh_type = SHT_SYMTAB,
                      .sh_offset = offsetof(struct elf, symbols),
                      .sh_size = sizeof f.symbols,
                      .sh_link = 3,
                      .sh_entsize = sizeof(Elf64_Sym)},
                     {.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct elf, names), .sh_size = sizeof f.names}},
        .symbols = {{0},
                    {.st_name = 1, .st_info = STT_FUNC, .st_shndx = 1, .st_value = start, .st_size = 16},
                    {.st_name = 5, .st_info = STT_FUNC, .st_shndx = 1, .st_value = start + 16, .st_size = 8}},
        .names = "\0one\0two",
    };
    return f;
}

static struct descriptor list = {.version = 1};
static struct entry entries[4];

/* A list of the n files that `entries` tells, of which `file` is none yet. */
static void link_entries(size_t n)
{
    for (size_t i = 0; i < n; i++)
        entries[i].next = i + 1 < n ? (uintptr_t)&entries[i + 1] : 0;
    list.first = (uintptr_t)&entries[0];
}

static void set_entry(size_t i, const void *file, size_t n_bytes)
{
    entries[i] = (struct entry){.file = (uintptr_t)file, .n_bytes = n_bytes};
}

static int begin(void **state)
{
    dp_symbols_jit_debug_abandon();
    list.version = 1;
    jit.descriptor = (uintptr_t)&list;
    return 0;
}

static void assert_named(uintptr_t pc, const char *name)
{
    struct dp_symbol_line line;
    if (dp_symbols_jit_debug_find(pc, &line) != (name != NULL))
        fail_msg("0x%zx", (size_t)pc);
    if (name)
        assert_string_equal(line.name, name);
}

TEST_WITH(begin, NULL, a_function_is_named_from_its_first_byte_to_its_last)
{
    struct elf file = make_file(ET_EXEC, 0x5000);
    set_entry(0, &file, sizeof file);
    link_entries(1);
    dp_symbols_jit_debug_refresh();
    assert_named(0x4fff, NULL);
    assert_named(0x5000, "one");
    assert_named(0x500f, "one");
    assert_named(0x5010, "two");
    assert_named(0x5017, "two");
    assert_named(0x5018, NULL);
}

TEST_WITH(begin, NULL, symbols_of_objects_are_relative_to_their_section)
{
    struct elf file = make_file(ET_REL, 0x40);
    file.symbols[2].st_shndx = 4; /* there is none */
    set_entry(0, &file, sizeof file);
    link_entries(1);
    dp_symbols_jit_debug_refresh();
    assert_named(0x40, NULL);
    assert_named(0x100040, "one");
    assert_int_equal(jit.pieces.n, 1);
}

TEST_WITH(begin, NULL, entries_without_a_file_do_not_hide_the_others)
{
    struct elf file = make_file(ET_EXEC, 0x5000);
    set_entry(0, &file, 0);
    set_entry(1, (const void *)8, 100); /* freed */
    set_entry(2, &file, FILE_BYTES_MAX + 1);
    set_entry(3, &file, sizeof file);
    link_entries(4);
    dp_symbols_jit_debug_refresh();
    assert_int_equal(jit.pieces.n, 2);
    assert_named(0x5000, "one");
}

TEST_WITH(begin, NULL, a_list_is_read_again_only_if_it_changed)
{
    struct elf file = make_file(ET_EXEC, 0x5000), other = make_file(ET_EXEC, 0x7000);
    set_entry(0, &file, sizeof file);
    link_entries(1);
    for (int again = 0; again < 3; again++) {
        dp_symbols_jit_debug_refresh();
        assert_int_equal(jit.pieces.n, 2);
    }
    set_entry(1, &other, sizeof other);
    link_entries(2);
    dp_symbols_jit_debug_refresh();
    assert_int_equal(jit.pieces.n, 4);
    assert_named(0x7000, "one");
    entries[0] = entries[1];
    link_entries(1);
    dp_symbols_jit_debug_refresh();
    assert_int_equal(jit.pieces.n, 2);
    assert_named(0x5000, NULL);
    list.version = 2;
    dp_symbols_jit_debug_refresh();
    assert_named(0x7000, NULL);
}

/* Each copy ends where its memory ends, so that a byte beyond it would be a fault under valgrind or a sanitizer. */
TEST_WITH(begin, NULL, a_file_that_is_cut_anywhere_names_nothing_beyond)
{
    struct elf file = make_file(ET_EXEC, 0x5000);
    for (size_t n = 1; n < sizeof file; n += n < offsetof(struct elf, names) + 16 ? 1 : 97) {
        begin(NULL);
        set_entry(0, &file, n);
        link_entries(1);
        dp_symbols_jit_debug_refresh();
        assert_int_equal(jit.pieces.n, 0);
    }
}

TEST_WITH(begin, NULL, a_name_has_at_most_1023_bytes)
{
    for (size_t n = NAME_MAX_BYTES - 1; n <= NAME_MAX_BYTES; n++) {
        struct elf file = make_file(ET_EXEC, 0x5000);
        memset(file.names + 5, 'x', n);
        begin(NULL);
        set_entry(0, &file, sizeof file);
        link_entries(1);
        dp_symbols_jit_debug_refresh();
        assert_named(0x5000, "one");
        assert_int_equal(jit.pieces.n, n < NAME_MAX_BYTES ? 2 : 1);
    }
}

TEST_WITH(begin, NULL, fields_that_lie_name_nothing)
{
    struct elf file = make_file(ET_EXEC, 0x5000), wrong[8];
    for (size_t i = 0; i < 8; i++)
        wrong[i] = file;
    wrong[0].header.e_ident[EI_CLASS] = ELFCLASS32;
    wrong[1].header.e_shoff = UINT64_MAX - 7;
    wrong[2].header.e_shentsize = 1;
    wrong[3].sections[2].sh_offset += 4;
    wrong[4].sections[2].sh_link = 4;
    wrong[5].sections[3].sh_size = sizeof file;
    wrong[6].sections[3].sh_offset = sizeof file + 1;
    wrong[7].symbols[1].st_name = wrong[7].symbols[2].st_name = sizeof file.names;
    for (size_t i = 0; i < 8; i++) {
        begin(NULL);
        set_entry(0, &wrong[i], sizeof file);
        link_entries(1);
        dp_symbols_jit_debug_refresh();
        assert_int_equal(jit.pieces.n, 0);
    }
}

UNIT(NULL, NULL)
