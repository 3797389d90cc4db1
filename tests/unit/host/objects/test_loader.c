/* SPDX-License-Identifier: MIT */
/*
 * Files found by their headers in memory, as on a glibc before 2.35, against what _dl_find_object says of them. The
 * linker gives the product's reference to it another name, so that only this test has it.
 */
#include "support/unit.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/objects/objects.h"
#include "host/symbols/loader_sync.h"

extern int __real__dl_find_object(void *address, struct dl_find_object *result);

static int set_up(void **state)
{
    return dp_frames_init(4 << 20);
}

TEST(the_loader_cannot_be_asked_here)
{
    assert_false(dp_loader_answers());
}

static unsigned n_files;

/* At both ends of each piece of code, and in the middle. */
static int compare(struct dl_phdr_info *info, size_t n_bytes, void *ctx)
{
    n_files++;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        uintptr_t pcs[] = {start, start + p->p_memsz / 2, start + p->p_memsz - 1};
        for (unsigned j = 0; j < 3; j++) {
            struct dp_loaded found;
            struct dl_find_object theirs;
            assert_int_equal(__real__dl_find_object((void *)pcs[j], &theirs), 0);
            if (!theirs.dlfo_eh_frame) { /* the kernel's vdso of aarch64 */
                assert_false(dp_loader_find(pcs[j], &found));
                continue;
            }
            assert_true(dp_loader_find(pcs[j], &found));
            /* The loader gives one segment where nothing is mapped between segments, as in programs of aarch64. */
            uintptr_t from = (uintptr_t)theirs.dlfo_map_start, to = (uintptr_t)theirs.dlfo_map_end;
            bool is_part = dp_page_ceil(to) == dp_page_ceil(start + p->p_memsz);
            assert_true(is_part || dp_page_ceil(to) == dp_page_ceil(found.end));
            assert_true(dp_page_floor(from) == dp_page_floor(found.start) ||
                        (is_part && dp_page_floor(from) == dp_page_floor(start)));
            assert_int_equal(found.bias, theirs.dlfo_link_map->l_addr);
            assert_ptr_equal(found.eh_frame_hdr, theirs.dlfo_eh_frame);
        }
    }
    return 0;
}

TEST(every_file_is_found_by_its_header)
{
    assert_non_null(dlopen("libm.so.6", RTLD_NOW));
    assert_non_null(dlmopen(LM_ID_NEWLM, "libz.so.1", RTLD_NOW)); /* another namespace, with a libc of its own */
    dl_iterate_phdr(compare, NULL);
    assert_true(n_files >= 5);
    struct link_map *map = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW);
    assert_non_null(map);
    struct dp_loaded found;
    assert_true(dp_loader_find((uintptr_t)dlsym(map, "cbrt"), &found));
    assert_int_equal(found.bias, map->l_addr);
}

TEST(the_main_program_has_its_name_and_others_get_theirs_from_a_report)
{
    const struct dp_object *self = dp_object_get(dp_object_find((uintptr_t)&set_up));
    assert_string_equal(dp_object_name(self), "");
    dp_object_id id = dp_object_find((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
    const struct dp_object *libc = dp_object_get(id);
    assert_true(id != 0 && libc->n_fdes > 1000);
    assert_string_equal(dp_object_name(libc), "?");
    dp_symbols_loader_sync();
    assert_non_null(strstr(dp_object_name(libc), "libc.so"));
    assert_int_equal(dp_object_find((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version")), id);
}

TEST(code_without_a_file_is_asked_about_once)
{
    char *pages = mmap(NULL, 64 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct dp_loaded found;
    assert_false(dp_loader_find((uintptr_t)pages + (63 << 12), &found));
    memcpy(pages, (const void *)(getauxval(AT_PHDR) & ~4095ul), 4096); /* now there is a header; nobody looks */
    ((ElfW(Ehdr) *)pages)->e_entry = 0;
    assert_false(dp_loader_find((uintptr_t)pages + 4096 + 64, &found));
    assert_false(dp_loader_find((uintptr_t)pages + (63 << 12), &found));
    munmap(pages, 64 << 12);
    assert_false(dp_loader_find((uintptr_t)pages + 64, &found));
    assert_false(dp_loader_find(64, &found));
    assert_false(dp_loader_find(UINTPTR_MAX - 64, &found));
}

TEST(a_first_page_that_lies_about_as_data_is_no_file)
{
    struct dp_loaded libc, found;
    uintptr_t code = (uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    assert_true(dp_loader_find(code, &libc));
    size_t n_bytes = libc.end - libc.start;
    char *data = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(data, (const void *)libc.start, 4096);
    assert_false(dp_loader_find((uintptr_t)data + (code - libc.start), &found));
    munmap(data, n_bytes);
}

TEST(a_file_that_took_the_place_of_another_is_not_taken_for_it)
{
    /* Unloads that no hook sees: the same range, first with one build-id, then with another. */
    void *plugin = dlopen("libm.so.6", RTLD_NOW | RTLD_NOLOAD);
    struct link_map *map = plugin;
    uintptr_t pc = (uintptr_t)dlsym(plugin, "cbrt");
    dp_object_id first = dp_object_find(pc);
    const struct dp_object *libm = dp_object_get(first);
    assert_true(first != 0 && libm->fingerprint_at);
    assert_int_equal(map->l_addr, libm->bias);
    uintptr_t page = (uintptr_t)libm->fingerprint_at & ~4095ul;
    assert_int_equal(mprotect((void *)page, 8192, PROT_READ | PROT_WRITE), 0);
    *(uint32_t *)libm->fingerprint_at ^= 1;
    dp_object_id second = dp_object_find(pc);
    assert_int_not_equal(second, first);
    assert_true(second != 0);
    uint32_t generation = dp_objects_generation();
    dp_objects_recheck();
    assert_int_not_equal(dp_objects_generation(), generation);
    assert_true(dp_load_relaxed(&libm->retired));
    *(uint32_t *)libm->fingerprint_at ^= 1;
    assert_int_equal(dp_object_find(pc), first);
    mprotect((void *)page, 8192, PROT_READ);
}

UNIT(set_up, NULL)
