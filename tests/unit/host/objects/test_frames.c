/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/objects/functions.h"
#include "host/objects/objects.h"
#include "host/objects/reach.h"
#include "host/unwind/unwind_cache.h"
#include "host/unwind/rule.h"

static int set_up(void **state)
{
    int err = dp_functions_init(64 << 10);
    return err ? err : dp_frames_init(4 << 20);
}

/* As tables of another process have it that are damaged: its name would be that of another variable, or of none. */
TEST(a_variable_outside_its_object_has_none)
{
    static int variable;
    dp_frame_id id = dp_frame_intern_data((uintptr_t)&variable);
    assert_int_not_equal(id, 0);
    struct dp_frame *f = (struct dp_frame *)dp_frame_get(id);
    assert_true(dp_frames_adopt(dp_frames_count()));
    dp_object_id object = f->object;
    assert_int_not_equal(object, 0);
    for (int i = 0; i < 2; i++) {
        f->object = object;
        f->pc = i ? dp_object_get(object)->end : dp_object_get(object)->start - 1;
        assert_true(dp_frames_adopt(dp_frames_count()));
        assert_int_equal(f->object, 0);
    }
    f->object = object;
    f->pc = (uintptr_t)&variable;
}

static struct deltaprof_function function(const char *name, const char *file, uint32_t line)
{
    return (struct deltaprof_function){name, file, (uint32_t)strlen(name), (uint32_t)strlen(file), line};
}

TEST(the_same_address_is_the_same_frame)
{
    uintptr_t pc = (uintptr_t)&the_same_address_is_the_same_frame + 1;
    dp_frame_id id = dp_frame_intern(pc);
    assert_true(id >= DP_FRAME_FIRST_REAL);
    assert_int_equal(dp_frame_intern(pc), id);
    assert_int_not_equal(dp_frame_intern(pc + 1), id);
    assert_true(id < dp_frames_count());
    assert_int_equal(dp_frame_get(id)->pc, pc);
    assert_int_equal(dp_frame_get(id)->type, DP_FRAME_CODE);
    dp_frame_id named = dp_frame_intern_named(pc);
    assert_int_not_equal(named, id);
    assert_int_equal(dp_frame_intern_named(pc), named);
    assert_int_equal(dp_frame_get(named)->type, DP_FRAME_NAMED);
}

TEST(synthetic_frames_have_names)
{
    assert_string_equal(dp_frame_synthetic_name(DP_FRAME_OVERFLOW), "[overflow]");
    assert_string_equal(dp_frame_synthetic_name(DP_FRAME_NO_STACK), "[no stack]");
    assert_null(dp_frame_synthetic_name(DP_FRAME_FIRST_REAL));
    assert_int_equal(dp_frame_get(DP_FRAME_OTHER)->type, DP_FRAME_SYNTHETIC);
}

TEST(a_function_is_found_again_by_what_it_says)
{
    struct deltaprof_function f = function("get", "views.py", 17), other = function("get", "views.py", 18),
                              moved = function("getv", "iews.py", 17);
    uint32_t id = deltaprof_function_find(&f);
    assert_int_not_equal(id, 0);
    assert_int_equal(deltaprof_function_find(&f), id);
    assert_true(deltaprof_function_is(id, &f));
    assert_false(deltaprof_function_is(id, &other));
    assert_false(deltaprof_function_is(id, &moved));
    assert_false(deltaprof_function_is(0, &f));
    assert_int_not_equal(deltaprof_function_find(&other), id);
    assert_int_not_equal(deltaprof_function_find(&moved), id);
    assert_string_equal(dp_function_get(id).name, "get");
    assert_string_equal(dp_function_get(id).file, "views.py");
    assert_int_equal(dp_function_get(id).first_line, 17);
}

TEST(long_texts_of_a_function_are_cut_between_characters)
{
    char name[1000], file[2000];
    for (size_t i = 0; i < sizeof name; i += 2)
        memcpy(name + i, "\xc3\xa4", 2);
    for (size_t i = 0; i < sizeof file; i += 2)
        memcpy(file + i, "\xc3\xb6", 2);
    struct deltaprof_function f = {name, file, sizeof name, sizeof file, 1};
    uint32_t id = deltaprof_function_find(&f);
    assert_true(deltaprof_function_is(id, &f));
    struct dp_function kept = dp_function_get(id);
    assert_int_equal(strlen(kept.name), DP_FUNCTION_NAME_MAX / 2 * 2);
    assert_int_equal(strlen(kept.file), DP_FUNCTION_FILE_MAX / 2 * 2);
    assert_memory_equal(kept.file, "\xc3\xb6", 2);
}

/* A glibc before 2.35 tells reports only. */
static bool is_named(const struct dp_object *object, const char *name)
{
    return strstr(dp_object_name(object), dp_loader_answers() ? name : "?") != NULL;
}

TEST(the_table_of_functions_ends_and_what_it_knows_stays)
{
    struct deltaprof_function f = function("before", "f", 1);
    uint32_t before = deltaprof_function_find(&f), line = 0, last = 0, id;
    struct deltaprof_function many = function("many", "f", 0);
    while ((id = deltaprof_function_find(&many)) != 0) {
        last = id;
        many.first_line = ++line;
    }
    assert_true(line > 1000);
    assert_int_equal(deltaprof_function_find(&f), before);
    many.first_line = line - 1;
    assert_int_equal(deltaprof_function_find(&many), last);
    assert_string_equal(dp_function_get(0xffffffff).name, "");
}

TEST(an_object_knows_its_range_its_build_id_and_its_unwind_table)
{
    uintptr_t pc = (uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    dp_object_id id = dp_object_find(pc);
    assert_true(id > 0);
    assert_int_equal(dp_object_find(pc + 1), id);
    const struct dp_object *libc = dp_object_get(id);
    assert_true(libc->start <= pc && pc < libc->end);
    assert_true(is_named(libc, "libc.so"));
    assert_int_equal(libc->build_id_bytes, 20);
    assert_true(libc->n_fdes > 1000);
    assert_true(libc->cfi_end > libc->cfi_start);
    Dl_info info;
    assert_true(dladdr((void *)pc, &info));
    assert_int_equal(libc->bias, (uintptr_t)info.dli_fbase);
}

TEST(code_without_a_file_is_a_frame_without_an_object)
{
    void *heap = malloc(16);
    dp_frame_id id = dp_frame_intern((uintptr_t)heap);
    assert_true(id >= DP_FRAME_FIRST_REAL);
    assert_int_equal(dp_frame_get(id)->object, 0);
    free(heap);
}

TEST(an_unload_retires_only_what_is_gone)
{
    const char *path = "libBrokenLocale.so.1"; /* of libc, and nobody has it open */
    uint32_t generation = dp_objects_generation();
    dp_object_id libc = dp_object_find((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
    dp_objects_unload_begin();
    assert_true(dp_objects_unloading());
    dp_objects_unload_end();
    assert_false(dp_objects_unloading());
    assert_int_equal(dp_objects_generation(), generation);

    dp_object_id first = 0;
    uint32_t count = 0;
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        void *at = dlsym(library, "__ctype_get_mb_cur_max");
        dp_object_id id = dp_object_find((uintptr_t)at);
        assert_true(id > 0);
        assert_int_equal(dp_load_relaxed(&dp_object_get(id)->retired), 0);
        if (i == 0) {
            first = id;
            count = dp_objects_count();
        }
        assert_int_equal(id, first); /* the same file at the same place */
        dp_objects_unload_begin();
        dlclose(library);
        dp_objects_unload_end();
        assert_int_equal(dp_object_find((uintptr_t)at), 0);
        assert_true(dp_load_relaxed(&dp_object_get(id)->retired));
        assert_int_equal(dp_objects_generation(), generation + 1 + (uint32_t)i);
        assert_int_equal(dp_object_find((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version")), libc);
    }
    assert_int_equal(dp_objects_count(), count);
}

/* This program's own headers and unwind table, damaged byte by byte in a copy. */
TEST(damaged_headers_are_read_without_harm)
{
    const struct dp_object *own = dp_object_get(dp_object_find((uintptr_t)&damaged_headers_are_read_without_harm));
    size_t n_bytes = own->end - own->start, n_usable = own->cfi_end - own->start;
    char *copy = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int memory =
        open("/proc/self/mem", O_RDONLY); /* an address sanitizer would not let us read what lies between variables */
    for (size_t at = 0; at < n_usable; at += 4096) /* there may be holes */
        assert_true(pread(memory, copy + at, 4096, (off_t)(own->start + at)) == 4096 ||
                    !dp_reach_probe(own->start + at));
    close(memory);
    size_t hdr = (uintptr_t)own->eh_frame_hdr - own->start;
    struct dp_object seen = {0};
    unsigned n_found = 0, n_rows = 0;
    srandom(1);
    for (int turn = 0; turn < 60000; turn++) {
        size_t where[3];
        char kept[3];
        for (int i = 0; i < 3; i++) {
            where[i] = random() % 3 ? (size_t)random() % 1024 : hdr + (size_t)random() % (n_usable - hdr);
            kept[i] = copy[where[i]];
            copy[where[i]] = (char)(random() % 4 ? random() : -1);
        }
        seen = (struct dp_object){.start = (uintptr_t)copy,
                                  .end = (uintptr_t)copy + n_bytes,
                                  .bias = (uintptr_t)copy,
                                  .eh_frame_hdr = copy + hdr};
        if (dp_object_read(&seen) && seen.n_fdes) {
            n_found++;
            struct dp_cfi cfi = {(uintptr_t)seen.eh_frame_hdr, seen.fde_table, seen.n_fdes, seen.cfi_start,
                                 seen.cfi_end};
            for (int i = 0; i < 8; i++) {
                struct dp_cfi_row row;
                uintptr_t pc = (uintptr_t)copy + (size_t)random() % n_usable;
                if (dp_cfi_find(&cfi, pc, &row) > 0)
                    n_rows += dp_rule_kind(dp_rule_make(&row, pc)) != DP_RULE_NONE;
            }
        }
        for (int i = 2; i >= 0; i--)
            copy[where[i]] = kept[i];
    }
    munmap(copy, n_bytes);
    assert_true(n_found > 10000 && n_rows > 10000);
}

static void *intern_many(void *arg)
{
    uint32_t *ids = arg;
    for (uint32_t i = 0; i < 20000; i++)
        ids[i] = dp_frame_intern_named(0x1000 + i);
    return NULL;
}

static void *unload_often(void *arg)
{
    for (int i = 0; i < 3000; i++) {
        dp_objects_unload_begin();
        if (!dp_objects_unloading())
            return arg;
        dp_objects_unload_end();
    }
    return NULL;
}

TEST(an_unload_is_under_way_until_the_last_one_ends)
{
    pthread_t threads[4];
    for (int t = 0; t < 4; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, unload_often, threads), 0);
    for (int t = 0; t < 4; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        assert_null(failed);
    }
    assert_false(dp_objects_unloading());
}

TEST(threads_agree_on_every_frame)
{
    static uint32_t ids[4][20000];
    pthread_t threads[4];
    for (int t = 0; t < 4; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, intern_many, ids[t]), 0);
    for (int t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    for (int i = 0; i < 20000; i++) {
        assert_true(ids[0][i] != 0);
        for (int t = 1; t < 4; t++)
            assert_int_equal(ids[t][i], ids[0][i]);
    }
}

TEST(a_plugin_that_comes_at_ever_other_addresses_is_still_walked)
{
    uint32_t before = dp_objects_count();
    bool was_known = false, was_full = false;
    assert_int_equal(dp_unwind_cache_init(1 << 16, true), 0);
    for (int i = 0; i < 8000 && !was_full; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        uintptr_t pc = (uintptr_t)dlsym(library, "cos") + 8;
        dp_object_id id = dp_object_find(pc);
        uint64_t value = dp_unwind_cache_fill(pc + 1, dp_objects_generation());
        assert_true(dp_rule_kind(dp_unwind_cache_rule(value)) <= DP_RULE_FP);
        if (id) {
            was_known = true;
            assert_true(is_named(dp_object_get(id), "libm.so"));
        } else {
            was_full = true;
        }
        const struct dp_object *object = dp_object_get(id);
        void *start = (void *)object->start;
        dp_objects_unload_begin();
        dlclose(library);
        dp_objects_unload_end();
        if (id) /* takes the place, so that the library is loaded elsewhere next time */
            mmap(start, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }
    assert_true(was_known);
    if (!was_full)
        skip(); /* a sanitizer's runtime maps something else there, and it does come back */
    assert_true(dp_objects_count() > before + 100);
}

TEST(a_full_table_says_no_and_keeps_what_it_has)
{
    dp_frame_id last = 0, id;
    uint64_t value = 1u << 30;
    while ((id = dp_frame_intern_named(value)) != 0) {
        last = id;
        value++;
        assert_true(value < (1u << 30) + (1u << 22));
    }
    assert_true(last < dp_frames_count());
    assert_int_equal(dp_frame_intern_named(value - 1), last);
    assert_int_equal(dp_frame_intern_named(value), 0);
}

UNIT(set_up, NULL)
