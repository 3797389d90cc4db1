/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/api/recording.h"
#include "host/objects/frames.h"
#include "host/objects/loader.h"
#include "host/symbols/maps.h"
#include "host/symbols/segment.h"
#include "support/scratch.h"

/* The arguments: libraries that are alike but for their build-ids. */
static char **library;

struct opened {
    void *handle;
    uintptr_t pc;
    struct dp_symbols_segment segment; /* where its code lies, by /proc/self/maps */
};

static struct opened open_library(const char *path)
{
    struct opened o = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    assert_non_null(o.handle);
    o.pc = (uintptr_t)dlsym(o.handle, "plugin_function") + 1;
    struct dp_symbols_segments all = {0};
    assert_int_equal(dp_symbols_segments_read(&all), 0);
    o.segment = *dp_symbols_segments_find(&all, o.pc);
    dp_symbols_segments_fini(&all);
    return o;
}

static void close_library(struct opened *o)
{
    dp_objects_unload_begin();
    dlclose(o->handle);
    dp_objects_unload_end();
}

static struct dp_symbols_mapping mapping_of(dp_frame_id id)
{
    assert_int_equal(dp_symbols_maps_begin(), 0);
    return dp_symbols_maps_get(dp_symbols_maps_find(id));
}

static void same_segment(const struct dp_symbols_mapping *m, const struct opened *o, const char *path)
{
    assert_int_equal(m->start, o->segment.start);
    assert_int_equal(m->limit, o->segment.limit);
    assert_int_equal(m->offset, o->segment.offset);
    assert_string_equal(m->file, path);
    assert_true(strlen(m->build_id) >= 32);
}

TEST(the_main_program_is_first)
{
    char self[PATH_MAX];
    self[readlink("/proc/self/exe", self, sizeof self - 1)] = 0;
    assert_int_equal(dp_symbols_maps_begin(), 0);
    struct dp_symbols_mapping m = dp_symbols_maps_get(DP_MAPPING_MAIN);
    assert_string_equal(m.file, self);
    uintptr_t here = (uintptr_t)the_main_program_is_first;
    assert_true(m.start <= here && here < m.limit);
    assert_int_equal(dp_symbols_maps_find(dp_frame_intern(here)), DP_MAPPING_MAIN);
}

TEST(a_closed_library_keeps_its_mapping)
{
    struct opened o = open_library(library[0]);
    dp_frame_id id = dp_frame_intern(o.pc);
    struct dp_symbols_mapping before = mapping_of(id);
    same_segment(&before, &o, library[0]);
    close_library(&o);
    struct dp_symbols_mapping after = mapping_of(id);
    same_segment(&after, &o, library[0]);
    uint32_t n = dp_symbols_maps_count();
    for (int again = 0; again < 50; again++) { /* opened and closed for ever, it adds nothing */
        struct opened again_o = open_library(library[0]);
        if (again_o.pc == o.pc) {
            mapping_of(dp_frame_intern(again_o.pc));
            assert_true(dp_symbols_maps_count() <= n);
        }
        close_library(&again_o);
    }
}

TEST(another_library_at_its_address_is_another_mapping)
{
    struct opened a = open_library(library[0]);
    dp_frame_id of_a = dp_frame_intern(a.pc);
    close_library(&a);
    struct opened b = open_library(library[1]);
    dp_frame_id of_b = dp_frame_intern(b.pc);
    if (a.pc != b.pc) /* the kernel chose otherwise */
        skip();
    assert_int_not_equal(of_a, of_b);
    struct dp_symbols_mapping ma = mapping_of(of_a), mb = mapping_of(of_b);
    same_segment(&ma, &a, library[0]);
    same_segment(&mb, &b, library[1]);
    assert_string_not_equal(ma.build_id, mb.build_id);
    close_library(&b);
}

static char top[64], copy[PATH_MAX];

static void copy_library(const char *from)
{
    char command[3 * PATH_MAX];
    snprintf(copy, sizeof copy, "%s/plugin.so", top);
    snprintf(command, sizeof command, "cp --remove-destination %s %s", from, copy);
    assert_int_equal(system(command), 0);
}

TEST(a_library_that_is_gone_before_any_report_is_read_from_its_file)
{
    if (!dp_loader_answers())
        skip(); /* an older glibc leaves its headers, not the name of its file */
    copy_library(library[2]);
    struct opened o = open_library(copy);
    dp_frame_id id = dp_frame_intern(o.pc);
    close_library(&o);
    struct dp_symbols_mapping m = mapping_of(id);
    same_segment(&m, &o, copy);
}

TEST(a_file_that_has_become_another_is_not_believed)
{
    copy_library(library[3]);
    struct opened o = open_library(copy);
    dp_frame_id id = dp_frame_intern(o.pc);
    const struct dp_object *object = dp_object_get(dp_frame_get(id)->object);
    close_library(&o);
    copy_library(library[0]);
    struct dp_symbols_mapping m = mapping_of(id);
    char build_id[3];
    snprintf(build_id, sizeof build_id, "%02x", object->build_id[0]);
    assert_memory_equal(m.build_id, build_id, 2);
    assert_true(m.start <= o.pc && o.pc < m.limit); /* the whole object */
    assert_true(m.start <= object->start && object->end <= m.limit);
}

TEST(code_without_a_file_is_anonymous)
{
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(dp_symbols_maps_find(dp_frame_intern((uintptr_t)code + 5)), DP_MAPPING_ANON);
    assert_int_equal(dp_symbols_maps_find(dp_frame_intern(0x1234)), DP_MAPPING_ANON);
    assert_string_equal(dp_symbols_maps_get(DP_MAPPING_ANON).file, "[anon]");
    munmap(code, 4096);
}

TEST(a_code_file_that_the_loader_does_not_know_is_a_mapping)
{
    const size_t page = dp_page_bytes();
    char self[PATH_MAX];
    self[readlink("/proc/self/exe", self, sizeof self - 1)] = 0;
    FILE *f = fopen(self, "rb");
    char *code = mmap(NULL, 2 * page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), page);
    fclose(f);
    assert_ptr_not_equal(code, MAP_FAILED);
    struct dp_symbols_mapping m = mapping_of(dp_frame_intern((uintptr_t)code + 100));
    assert_string_equal(m.file, self);
    assert_int_equal(m.start, code);
    assert_int_equal(m.offset, page);
    assert_true(strlen(m.build_id) >= 32);
    assert_string_equal(m.build_id,
                        dp_symbols_maps_get(DP_MAPPING_MAIN).build_id); /* an object of this file is loaded */
    f = fopen("/bin/sh", "rb");
    char *other = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
    fclose(f);
    assert_ptr_not_equal(other, MAP_FAILED);
    assert_string_equal(mapping_of(dp_frame_intern((uintptr_t)other + 100)).build_id, "");
    munmap(other, page);
    munmap(code, 2 * page);
}

int main(int argc, char **argv)
{
    struct dp_config conf;
    library = argv + 1;
    dp_config_init(&conf);
    if (argc < 5 || dp_record_init(&conf) || scratch_directory(top, sizeof top, "maps"))
        return 1;
    int failed = run_unit(NULL, NULL);
    unlink(copy);
    rmdir(top);
    return failed;
}
