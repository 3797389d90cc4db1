/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/consumers.h"
#include "host/resident/resident.h"
#include "host/report/consumer.h"
#include "host/report/settings.h"
#include "host/report/write_buffers.h"

#include <deltaprof/hooks.h>

TEST(in_use_is_a_state_and_alloc_a_difference)
{
    struct dp_consumer *c = new_consumer();
    allocate(1, 5);
    release(1, 2);
    write_and_commit(c);
    values_are(1, 5, 3);
    write_and_commit(c);
    values_are(1, 0, 3);
    allocate(1, 1);
    release(1, 4);
    write_and_commit(c);
    values_are(1, 1, 0);
    write_and_commit(c);
    values_are(1, 0, 0);
    dp_consumer_free(c);
}

TEST(failed_push_keeps_the_baseline)
{
    struct dp_consumer *c = new_consumer();
    allocate(2, 7);
    release(2, 7);
    for (size_t after = 1; after < 400; after += 7) {
        taken.fail_after = after;
        int err = dp_consumer_write(c, 0, take, &taken, NULL);
        taken.fail_after = 0;
        dp_vec_fini(&taken.bytes);
        if (!err) { /* all of it was shorter */
            dp_consumer_abandon(c);
            break;
        }
        assert_int_equal(err, -EIO);
        assert_int_equal(dp_consumer_commit(c), -EINVAL);
    }
    allocate(2, 1);
    release(2, 1);
    write_and_commit(c);
    values_are(2, 8, 0);
    dp_consumer_free(c);
}

TEST(what_a_failed_write_laid_out_is_not_in_the_next_one)
{
    struct dp_consumer *c = new_consumer();
    for (unsigned i = 0; i < 40; i++) {
        allocate(800 + i, i + 1);
        release(800 + i, i + 1);
    }
    for (taken.fail_after = 1; dp_consumer_write(c, DP_WRITE_RAW, take, &taken, NULL) == -EIO; taken.fail_after *= 2)
        dp_vec_clear(&taken.bytes);
    assert_true(taken.fail_after > 1000);
    taken.fail_after = 0;
    dp_vec_clear(&taken.bytes);
    assert_int_equal(dp_consumer_abandon(c), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(dp_consumer_write(c, 0, take, &taken, NULL), 0);
        read_taken(&taken, &said);
        assert_int_equal(said.n_rows, 40);
        assert_int_equal(said.sums[0], 40 * 41 / 2);
        assert_int_equal(said.n_locations, 41);
        assert_int_equal(said.n_mappings, 2);
        assert_int_equal(again ? dp_consumer_commit(c) : dp_consumer_abandon(c), 0);
    }
    dp_consumer_free(c);
}

TEST(one_kit_is_kept_if_it_is_not_too_large)
{
    struct dp_report_write_buffers *first = dp_report_write_buffers_get(), *a = dp_report_write_buffers_get(),
                                   *b = dp_report_write_buffers_get();
    assert_ptr_not_equal(a, b);
    size_t used = dp_mem_used();
    assert_non_null(dp_vec_room(&a->rows, 1000));
    size_t taken_bytes = dp_mem_used() - used;
    dp_report_write_buffers_put(a, taken_bytes + sizeof *a);
    assert_int_equal(dp_mem_used(), used + taken_bytes);
    assert_ptr_equal(dp_report_write_buffers_get(), a);
    dp_report_write_buffers_put(b, SIZE_MAX);
    dp_report_write_buffers_put(a, taken_bytes / 2);
    assert_true(dp_mem_used() < used);
    assert_ptr_equal(dp_report_write_buffers_get(), b);
    dp_report_write_buffers_put(b, 0);
    dp_report_write_buffers_put(first, SIZE_MAX);
    dp_report_write_buffers_put(NULL, 0);
}

TEST(what_comes_between_write_and_commit_is_not_lost)
{
    struct dp_consumer *c = new_consumer();
    allocate(3, 4);
    release(3, 4);
    assert_int_equal(dp_consumer_write(c, 0, take, &taken, NULL), 0);
    allocate(3, 2);
    release(3, 2);
    assert_int_equal(dp_consumer_write(c, 0, take, &taken, NULL), -EBUSY);
    assert_int_equal(dp_consumer_commit(c), 0);
    read_taken(&taken, &said);
    values_are(3, 4, 0);
    write_and_commit(c);
    values_are(3, 2, 0);
    allocate(3, 1);
    release(3, 1);
    assert_int_equal(dp_consumer_write(c, 0, take, &taken, NULL), 0);
    assert_int_equal(dp_consumer_abandon(c), 0);
    assert_int_equal(dp_consumer_abandon(c), -EINVAL);
    read_taken(&taken, &said);
    write_and_commit(c);
    values_are(3, 1, 0);
    dp_consumer_free(c);
}

/* As while another thread changes a setting: a hook may not wait for that. */
TEST(settings_that_change_right_now_come_later)
{
    struct dp_consumer *c = new_consumer();
    c->follows = true;
    c->symbolize = DP_SYMBOLIZE_LINES;
    assert_non_null(dp_report_settings_lock(true));
    assert_int_equal(dp_consumer_lock(c, false), 0);
    dp_consumer_unlock(c);
    assert_int_equal(c->symbolize, DP_SYMBOLIZE_LINES);
    dp_report_settings_unlock();
    assert_int_equal(dp_consumer_lock(c, false), 0);
    dp_consumer_unlock(c);
    assert_int_not_equal(c->symbolize, DP_SYMBOLIZE_LINES);
    dp_consumer_free(c);
}

TEST(cursors_do_not_disturb_each_other)
{
    struct dp_consumer *a = new_consumer(), *b = new_consumer();
    allocate(4, 3);
    release(4, 3);
    write_and_commit(a);
    values_are(4, 3, 0);
    allocate(4, 2);
    release(4, 2);
    write_and_commit(b);
    values_are(4, 5, 0);
    write_and_commit(a);
    values_are(4, 2, 0);
    assert_int_equal(dp_consumer_skip(b), 0);
    write_and_commit(b);
    values_are(4, 0, 0);
    dp_consumer_free(a);
    dp_consumer_free(b);
}

TEST(a_cumulative_profile_moves_nothing)
{
    struct dp_consumer *c = new_consumer();
    struct dp_profile_info info;
    allocate(5, 3);
    release(5, 3);
    write_and_commit(c);
    allocate(5, 1);
    release(5, 1);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(dp_consumer_write(c, DP_WRITE_CUMULATIVE, take, &taken, &info), 0);
        read_taken(&taken, &said);
        values_are(5, 4, 0);
        assert_int_equal(said.duration_ns, 0);
        assert_int_equal(said.time_ns, info.to_ns);
        assert_int_equal(dp_consumer_commit(c), -EINVAL);
    }
    write_and_commit(c);
    values_are(5, 1, 0);
    dp_consumer_free(c);
}

TEST(windows_meet)
{
    struct dp_consumer *c = new_consumer();
    struct dp_profile_info first, second;
    assert_int_equal(dp_consumer_write(c, 0, take, &taken, &first), 0);
    dp_consumer_commit(c);
    read_taken(&taken, &said);
    usleep(2000);
    assert_int_equal(dp_consumer_write(c, 0, take, &taken, &second),
                     0); /* not committed: the next delta covers its time too */
    dp_consumer_abandon(c);
    read_taken(&taken, &said);
    assert_int_equal(dp_consumer_write(c, 0, take, &taken, &second), 0);
    dp_consumer_commit(c);
    read_taken(&taken, &said);
    assert_int_equal(second.from_ns, first.to_ns);
    assert_int_equal(said.time_ns, second.from_ns);
    assert_true(said.duration_ns >= 2000000);
    dp_consumer_free(c);
}

TEST(an_empty_delta_says_once_that_nothing_is_in_use_any_more)
{
    struct dp_consumer *c = new_consumer();
    assert_int_equal(dp_consumer_write(c, DP_WRITE_SKIP_EMPTY, take, &taken, NULL), 1);
    assert_int_equal(taken.bytes.n, 0);
    allocate(6, 2);
    assert_int_equal(dp_consumer_write(c, DP_WRITE_SKIP_EMPTY, take, &taken, NULL), 0);
    dp_consumer_commit(c);
    read_taken(&taken, &said);
    values_are(6, 2, 2);
    release(6, 2);
    assert_int_equal(dp_consumer_write(c, DP_WRITE_SKIP_EMPTY, take, &taken, NULL), 0);
    dp_consumer_commit(c);
    read_taken(&taken, &said);
    assert_int_equal(said.n_rows, 0);
    assert_int_equal(dp_consumer_write(c, DP_WRITE_SKIP_EMPTY, take, &taken, NULL), 1);
    dp_consumer_free(c);
}

TEST(an_idle_heap_costs_no_location_and_less_than_a_kilobyte)
{
    struct dp_consumer *c = new_consumer();
    for (unsigned i = 0; i < 512; i++) {
        allocate(100 + i, 1);
        release(100 + i, 1);
    }
    write_and_commit(c);
    assert_int_equal(said.n_rows, 512);
    write_and_commit(c);
    assert_int_equal(said.n_rows, 0);
    assert_int_equal(said.n_locations, 0);
    assert_int_equal(said.n_mappings, 1);
    assert_true(said.n_zipped < 1000);
    dp_consumer_free(c);
}

TEST(a_consumer_chooses_types_and_how_many_samples)
{
    struct dp_consumer *c = new_consumer();
    struct dp_config conf;
    dp_consumer_configuration(c, &conf);
    conf.types = DP_TYPES_ALLOC;
    conf.max_samples = 3;
    dp_consumer_configure(c, &conf);
    for (unsigned i = 0; i < 10; i++) {
        allocate(700 + i, i + 1);
        release(700 + i, i + 1);
    }
    write_and_commit(c);
    assert_int_equal(said.n_rows, 3);
    assert_int_equal(said.sums[0], 55);
    assert_string_equal(said.rows[2].leaf_name, "[other]");
    assert_int_equal(said.rows[2].values[0], 55 - 10 - 9);
    write_and_commit(c);
    assert_int_equal(said.n_rows, 0);
    dp_consumer_free(c);
}

TEST(heaps_and_locks_are_labelled)
{
    struct dp_consumer *c = new_consumer();
    dp_frame_id frames[] = {dp_frame_intern(PC(800))};
    struct dp_stack stack = {.hash = dp_stack_hash(frames, 1), .depth = 1, .cut = 1, .frames = frames};
    dp_record_id id = 0;
    uint32_t heap = deltaprof_heap_register("arena");
    assert_true(dp_record_add(DP_KIND_HEAP, (uint8_t)heap, 0, &stack, 1, 8, &id));
    write_and_commit(c);
    assert_string_equal(row_of(&said, PC(800))->label, "arena");
    dp_table_add_free(DP_KIND_HEAP, id, 1, 8);
    dp_consumer_free(c);
}

/* The number behind the name in the message that was taken, or -1. */
static long long number_behind(const char *name)
{
    const char *at = memmem(taken.bytes.at, taken.bytes.n, name, strlen(name));
    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

TEST(resident_memory_is_told_where_it_is_asked_for)
{
    struct dp_consumer *c = new_consumer();
    char line[256];
    long long all_kib = 0, anon_kib = 0;
    allocate(7, 1);
    assert_int_equal(dp_consumer_write(c, DP_WRITE_RAW | DP_WRITE_RESIDENT, take, &taken, NULL), 0);
    long long all = number_behind("#RssTotal="), anon = number_behind("#RssAnon=");
    FILE *status = fopen("/proc/self/status", "re");
    while (fgets(line, sizeof line, status)) {
        sscanf(line, "VmRSS: %lld", &all_kib);
        sscanf(line, "RssAnon: %lld", &anon_kib);
    }
    fclose(status);
    assert_true(anon > 0 && anon < all);
    assert_in_range(all, all_kib << 9, all_kib << 11);
    assert_in_range(anon, anon_kib << 9, anon_kib << 11);
    dp_consumer_commit(c);
    dp_vec_fini(&taken.bytes);
    allocate(7, 1);
    assert_int_equal(dp_consumer_write(c, DP_WRITE_RAW, take, &taken, NULL), 0);
    assert_int_equal(number_behind("#RssTotal="), -1);
    dp_consumer_commit(c);
    dp_vec_fini(&taken.bytes);
    dp_consumer_free(c);
}

static int64_t bytes_of_malloc(void)
{
    struct dp_resident resident;
    struct dp_resident_parts parts;
    assert_int_equal(dp_resident_read(&resident), 0);
    assert_int_equal(dp_resident_divide(&resident, (size_t)2 << 20, &parts), 0);
    return parts.in_use_bytes[0] + parts.held_bytes;
}

TEST(an_allocator_holds_its_mapping_when_all_blocks_are_freed)
{
    const size_t page = dp_page_bytes(), n = (size_t)16 << 20;
    const int64_t most = (int64_t)n / 8 * 7;
    char *space = mmap(NULL, n + 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *pool = space + page;
    assert_true(space != MAP_FAILED);
    struct dp_config conf;
    dp_config_init(&conf);
    conf.heap_rate = 1;
    dp_record_tune(&conf, true);
    int64_t before = bytes_of_malloc();
    assert_int_equal(mprotect(pool, n, PROT_READ | PROT_WRITE), 0);
    memset(pool, 1, n);
    assert_true(bytes_of_malloc() < before + most); /* so far it may be anything */
    deltaprof_alloc(0, pool, 100);
    assert_true(bytes_of_malloc() > before + most);
    deltaprof_free(0, pool);
    assert_true(bytes_of_malloc() > before + most);

    munmap(pool, n);
    assert_true(bytes_of_malloc() < before + most);
    assert_ptr_equal(mmap(pool, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), pool);
    memset(pool, 1, n);
    assert_true(bytes_of_malloc() < before + most); /* another mapping at the same place */

    deltaprof_alloc(0, pool + 16, n - 32); /* as a block that glibc maps alone, and unmaps */
    assert_true(bytes_of_malloc() > before + most);
    deltaprof_free(0, pool + 16);
    assert_true(bytes_of_malloc() < before + most);
    munmap(space, n + 2 * page);
    dp_record_tune(&conf, false);
}

UNIT(records_begin, NULL)
