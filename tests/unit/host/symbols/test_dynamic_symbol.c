/* SPDX-License-Identifier: MIT */
/* Dynamic symbols of files that the test lays out itself, in which each edge of the hash table can be chosen. */
#include "support/unit.h"

#include "host/symbols/dynamic_symbol.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Two buckets and a Bloom filter of two words. Symbols 1 and 2 are not hashed; 3 and 4 are the chain of bucket 0. */
static struct file {
    struct {
        uint32_t n_buckets, first_hashed, n_bloom_words, bloom_shift;
        ElfW(Addr) bloom[2];
        uint32_t buckets[2], chain[3];
    } hash;
    ElfW(Sym) symbols[5];
    char names[64];
    ElfW(Dyn) dynamic[4];
    ElfW(Phdr) phdr[2];
} file;

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    while (*name)
        hash = hash * 33 + (unsigned char)*name++;
    return hash;
}

static struct dl_phdr_info lay_out(void)
{
    assert_int_equal(hash_of("ab"), hash_of("bA"));
    assert_int_equal(hash_of("ab") % 2, 0);
    assert_int_equal(hash_of("two") % 2, 1);
    memset(&file, 0, sizeof file);
    memcpy(file.names, "\0ab\0bA", 7);
    file.hash.n_buckets = 2;
    file.hash.first_hashed = 3;
    file.hash.n_bloom_words = 2;
    file.hash.buckets[0] = 3;
    file.hash.chain[0] = hash_of("bA") & ~1u;
    file.hash.chain[1] = hash_of("ab") | 1;
    file.hash.chain[2] = hash_of("ab") | 1; /* beyond the end of the chain */
    for (size_t i = 1; i < 5; i++)
        file.symbols[i] = (ElfW(Sym)){.st_shndx = 1, .st_value = i, .st_name = 1};
    file.symbols[3].st_name = 4;
    file.dynamic[0] = (ElfW(Dyn)){.d_tag = DT_GNU_HASH, .d_un.d_ptr = (uintptr_t)&file.hash};
    file.dynamic[1] = (ElfW(Dyn)){.d_tag = DT_SYMTAB, .d_un.d_ptr = (uintptr_t)file.symbols};
    file.dynamic[2] = (ElfW(Dyn)){.d_tag = DT_STRTAB, .d_un.d_ptr = (uintptr_t)file.names};
    file.phdr[0].p_type = PT_LOAD;
    file.phdr[1] = (ElfW(Phdr)){.p_type = PT_DYNAMIC, .p_vaddr = (uintptr_t)file.dynamic};
    return (struct dl_phdr_info){.dlpi_phdr = file.phdr, .dlpi_phnum = 2};
}

TEST(a_name_is_found_behind_another_of_the_same_hash)
{
    struct dl_phdr_info info = lay_out();
    assert_ptr_equal(dp_symbols_dynamic_find(&info, "bA"), &file.symbols[3]);
    assert_ptr_equal(dp_symbols_dynamic_find(&info, "ab"), &file.symbols[4]);
    file.symbols[3].st_name = 1; /* the first hashed symbol is found in the first word of the chains */
    assert_ptr_equal(dp_symbols_dynamic_find(&info, "ab"), &file.symbols[3]);
}

TEST(a_chain_ends_at_its_last_symbol)
{
    struct dl_phdr_info info = lay_out();
    file.hash.chain[0] |= 1;
    assert_null(dp_symbols_dynamic_find(&info, "ab"));
    assert_ptr_equal(dp_symbols_dynamic_find(&info, "bA"), &file.symbols[3]);
}

TEST(a_symbol_that_another_file_defines_is_not_found)
{
    struct dl_phdr_info info = lay_out();
    file.symbols[4].st_shndx = SHN_UNDEF;
    assert_null(dp_symbols_dynamic_find(&info, "ab"));
}

TEST(an_empty_bucket_has_no_symbols)
{
    struct dl_phdr_info info = lay_out();
    assert_null(dp_symbols_dynamic_find(&info, "two"));
    file.hash.n_buckets = 0;
    assert_null(dp_symbols_dynamic_find(&info, "ab"));
}

TEST(a_file_without_one_of_the_tables_defines_nothing)
{
    for (size_t i = 0; i < 3; i++) {
        struct dl_phdr_info info = lay_out();
        file.dynamic[i].d_tag = DT_DEBUG;
        assert_null(dp_symbols_dynamic_find(&info, "ab"));
    }
    struct dl_phdr_info info = lay_out();
    info.dlpi_phnum = 1;
    assert_null(dp_symbols_dynamic_find(&info, "ab"));
}

/* As in the kernel's own file, whose dynamic section is read-only. */
TEST(addresses_may_be_relative_to_the_file)
{
    struct dl_phdr_info info = lay_out();
    info.dlpi_addr = (uintptr_t)&file;
    for (size_t i = 0; i < 3; i++)
        file.dynamic[i].d_un.d_ptr -= i == 1 ? 0 : info.dlpi_addr;
    file.phdr[1].p_vaddr -= info.dlpi_addr;
    assert_ptr_equal(dp_symbols_dynamic_find(&info, "ab"), &file.symbols[4]);
}

static int find_exit(struct dl_phdr_info *info, size_t n_bytes, void *ctx)
{
    const ElfW(Sym) *symbol = dp_symbols_dynamic_find(info, "exit");
    uintptr_t *found = ctx;
    if (symbol)
        *found = info->dlpi_addr + symbol->st_value;
    return symbol != NULL;
}

TEST(a_function_of_libc_is_where_dlsym_finds_it)
{
    uintptr_t found = 0;
    dl_iterate_phdr(find_exit, &found);
    assert_int_equal(found, (uintptr_t)dlsym(RTLD_DEFAULT, "exit"));
}

UNIT(NULL, NULL)
