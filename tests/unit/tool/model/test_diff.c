/* SPDX-License-Identifier: MIT */
/* What makes two frames the same, and what a diff carries from turn to turn. */
#include "tool/model/diff.h"
#include "pprof/encode.h"
#include "support/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "support/unit.h"

/* One sample of one frame: where its library lies, the address in the process, a name or none. */
struct frame {
    const char *file, *build_id;
    uint64_t start, address;
    const char *name;
    int64_t allocs, in_use;
};

static struct bytes written;
static struct dp_decode decode;
static struct dp_model_diff diff;
static struct dp_decode_error error;
static struct dp_model_diff_result found;

static void write_profile(const struct frame *frames, size_t n, int64_t time_ns)
{
    static const struct dp_encode_value_type types[] = {{"alloc_space", "bytes"}, {"inuse_space", "bytes"}};
    written.all.n = 0;
    struct dp_encode *e = dp_encode_new(keep, &written);
    dp_encode_header(e, &(struct dp_encode_header){.types = types, .n_types = 2, .time_ns = time_ns});
    for (size_t i = 0; i < n; i++) {
        int64_t name = frames[i].name ? dp_encode_string(e, frames[i].name, strlen(frames[i].name)) : 0;
        struct dp_encode_line line = {.function = name ? dp_encode_function(e, name, name, 0, 0) : 0, .line = 7};
        uint64_t id = dp_encode_location(e, frames[i].file ? i + 1 : 0, frames[i].address, &line, name != 0);
        int64_t values[] = {frames[i].allocs, frames[i].in_use};
        dp_encode_sample(e, &id, 1, values, NULL, 0);
    }
    for (size_t i = 0; i < n; i++) {
        const char *file = frames[i].file ? frames[i].file : "";
        struct dp_encode_mapping mapping = {
            .start = frames[i].start,
            .limit = frames[i].start + 0x10000,
            .offset = 0x1000,
            .file = dp_encode_string(e, file, strlen(file)),
            .build_id = dp_encode_string(e, frames[i].build_id, strlen(frames[i].build_id)),
        };
        dp_encode_mapping(e, &mapping);
    }
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
}

static int add(const struct frame *frames, size_t n, int64_t time_ns)
{
    write_profile(frames, n, time_ns);
    int result = dp_decode_scan(&decode, written.all.at, written.all.n, &error);
    return result ? result : dp_model_diff_add(&diff, &decode, &error);
}

/* Writes the diff and scans it; the values of its sample i. */
static const int64_t *values_of(size_t i)
{
    static struct dp_decode_sample sample;
    written.all.n = 0;
    assert_int_equal(dp_model_diff_write(&diff, keep, &written, &found), 0);
    assert_int_equal(dp_decode_scan(&decode, written.all.at, written.all.n, &error), 0);
    assert_int_equal(decode.samples.n, found.n_rows);
    if (i >= decode.samples.n)
        return NULL;
    assert_int_equal(dp_decode_sample(&decode, i, &sample, &error), 0);
    return sample.values.at;
}

static int again(void **state)
{
    dp_model_diff_fini(&diff);
    diff = (struct dp_model_diff){0};
    return 0;
}

static void assert_same(const struct frame *a, const struct frame *b, int same)
{
    again(NULL);
    assert_int_equal(add(a, 1, 1), 0);
    assert_int_equal(add(b, 1, 2), 0);
    assert_int_equal(diff.model.rows.n, same ? 1 : 2);
}

TEST_WITH(again, NULL, a_frame_is_its_object_and_its_place_in_it)
{
    struct frame a = {"/lib/a.so", "aa", 0x10000, 0x10123, NULL, 5, 0}, b = a;
    b.start = 0x70000, b.address = 0x70123; /* loaded elsewhere */
    assert_same(&a, &b, 1);
    b.file = "/lib/renamed.so";
    assert_same(&a, &b, 1);
    b.build_id = "bb"; /* another build at the same place */
    assert_same(&a, &b, 0);
    b = a, b.name = "named meanwhile";
    assert_same(&a, &b, 1);
    b = a, b.address++;
    assert_same(&a, &b, 0);
    a.build_id = b.build_id = "", b.address = a.address; /* the file stands for it */
    assert_same(&a, &b, 1);
    b.file = "/lib/b.so";
    assert_same(&a, &b, 0);
}

TEST_WITH(again, NULL, without_a_build_id_names_part_frames_at_one_place)
{
    struct frame a = {"/bin/server", "", 0x10000, 0x10123, "alpha", 5, 0}, b = a;
    assert_same(&a, &b, 1);
    b.start = 0x70000, b.address = 0x70123; /* loaded elsewhere */
    assert_same(&a, &b, 1);
    b.name = "beta"; /* the file was built anew */
    assert_same(&a, &b, 0);
    b.name = NULL;
    assert_same(&a, &b, 1);
    b.name = "server+0x1123"; /* the place in other words */
    assert_same(&a, &b, 1);
    assert_same(&b, &a, 1);
    a.build_id = b.build_id = "aa", b.name = "beta"; /* one build, named by another reader of symbols */
    assert_same(&a, &b, 1);
}

TEST_WITH(again, NULL, a_nameless_frame_joins_the_build_that_was_loaded_there)
{
    struct frame alpha = {"/bin/server", "", 0x10000, 0x10123, "alpha", 5, 0};
    struct frame beta = {"/bin/server", "", 0x70000, 0x70123, "beta", 7, 0}, bare = alpha;
    assert_int_equal(add(&alpha, 1, 1), 0);
    assert_int_equal(add(&beta, 1, 2), 0);
    bare.name = NULL, bare.allocs = 9;
    assert_int_equal(add(&bare, 1, 3), 0);
    assert_int_equal(diff.model.rows.n, 2);
    const struct dp_model_function *f = diff.model.functions.at;
    const struct dp_model_location *l = diff.model.locations.at;
    assert_string_equal(dp_model_text(&diff.model, f[diff.model.lines.at[l[0].first_line].function - 1].name), "alpha");
    assert_int_equal(l[0].address, 0x10123);
    assert_int_equal(values_of(0)[0], 9);
}

TEST_WITH(again, NULL, without_an_object_a_frame_is_its_address_and_lines)
{
    struct frame a = {"[anon]", "", 0x10000, 0x10123, "f", 5, 0}, b = a;
    b.start = 0x8000; /* places in nameless memory say nothing */
    assert_same(&a, &b, 1);
    b.address = 0x8123;
    assert_same(&a, &b, 0);
    a = b = (struct frame){NULL, "", 0, 0, "f", 5, 0};
    assert_same(&a, &b, 1);
    b.name = "g";
    assert_same(&a, &b, 0);
    a.address = b.address = 0x10, b.name = "f";
    assert_same(&a, &b, 1);
}

TEST_WITH(again, NULL, names_that_are_known_are_not_lost)
{
    struct frame named = {"/lib/a.so", "aa", 0x10000, 0x10123, "f", 5, 0}, bare = named;
    again(NULL);
    bare.name = NULL, bare.allocs = 9;
    assert_int_equal(add(&named, 1, 1), 0);
    assert_int_equal(add(&bare, 1, 2), 0);
    assert_int_equal(values_of(0)[0], 4);
    assert_int_equal(decode.lines.n, 1);
}

TEST_WITH(again, NULL, each_turn_is_less_the_one_before_it)
{
    struct frame rows[] = {{"/a", "", 0, 16, NULL, 5, 1}, {"/a", "", 0, 32, NULL, 7, 0}};
    assert_int_equal(add(rows, 2, 100), 0);
    assert_int_equal(values_of(0)[0], 5); /* the first, as it is */
    assert_int_equal(decode.time_ns, 100);
    assert_int_equal(decode.duration_ns, 0);
    rows[0].allocs = 6;
    assert_int_equal(add(rows, 2, 150), 0);
    assert_int_equal(values_of(0)[0], 1);
    assert_int_equal(found.n_rows, 1); /* nothing of the other */
    assert_int_equal(values_of(0)[0], 1);
    assert_int_equal(decode.time_ns, 100);
    assert_int_equal(decode.duration_ns, 50);
    assert_int_equal(add(rows + 1, 1, 170), 0); /* row 0 is gone */
    assert_null(values_of(0));
    assert_int_equal(found.n_went_down, 1);
    assert_int_equal(decode.time_ns, 150);
    assert_int_equal(add(rows, 2, 180), 0); /* and comes anew */
    assert_int_equal(values_of(0)[0], 6);
    assert_int_equal(found.n_went_down, 0);
}

TEST_WITH(again, NULL, a_clock_that_stood_still_still_makes_a_delta)
{
    struct frame row = {"/a", "", 0, 16, NULL, 5, 1};
    assert_int_equal(add(&row, 1, 100), 0);
    assert_int_equal(add(&row, 1, 90), 0);
    values_of(0);
    assert_int_equal(decode.time_ns, 100);
    assert_int_equal(decode.duration_ns, 1);
}

TEST_WITH(again, NULL, flows_that_are_not_there_are_refused)
{
    struct frame row = {"/a", "", 0, 16, NULL, 5, 1};
    diff.flows = "alloc_space,alloc_spac";
    assert_int_equal(add(&row, 1, 100), -EINVAL);
    assert_string_equal(error.line, "no sample type alloc_spac to subtract; it has: alloc_space, inuse_space");
}

TEST_WITH(again, NULL, old_rows_leave_the_model_and_the_rest_keeps_its_values)
{
    enum { N = 30000 };
    static struct frame rows[N];
    char names[8][32];
    for (int turn = 0; turn < 8; turn++) {
        strcpy(names[turn], "function of turn 0");
        names[turn][17] += (char)turn;
        for (uint64_t i = 0; i < N; i++) /* the first half stays, the others are of this turn */
            rows[i] = (struct frame){
                i < N / 2 ? "/stays" : "/goes", "",       0,    16 + i + (i < N / 2 ? 0 : N * (uint64_t)turn),
                names[i < N / 2 ? 0 : turn],    turn + 1, i < 3};
        assert_int_equal(add(rows, N, turn + 1), 0);
        assert_int_equal(values_of(0)[0], 1);
        assert_int_equal(values_of(N / 2 - 1)[0], 1);
        assert_int_equal(values_of(N - 1)[0], turn + 1);
        assert_int_equal(found.n_rows, N);
    }
    assert_true(diff.model.rows.n >= N && diff.model.rows.n <= 3 * N);
}

/* A profile of one sample with a label, as these bytes say; the string "k" is number 1 and "a", then `text`, behind it.
 */
static int add_bytes(const char *text, unsigned n_locations, uint8_t location, int64_t value)
{
    written.all.n = 0;
    struct dp_encode *e = dp_encode_new(keep, &written);
    const uint8_t sample[] = {2 << 3 | 2,     12,         1 << 3 | 2, 1,      location, 2 << 3 | 2, 1,
                              (uint8_t)value, 3 << 3 | 2, 4,          1 << 3, 1,        2 << 3,     3};
    dp_encode_raw(e, sample, sizeof sample);
    dp_encode_string(e, "k", 1);
    dp_encode_string(e, "a", 1);
    if (text)
        dp_encode_string(e, text, strlen(text));
    dp_encode_header(e,
                     &(struct dp_encode_header){.types = &(struct dp_encode_value_type){"delay", "a"}, .n_types = 1});
    for (unsigned i = 0; i < n_locations; i++)
        dp_encode_location(e, 0, 16 + i, NULL, 0);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    int result = dp_decode_scan(&decode, written.all.at, written.all.n, &error);
    return result ? result : dp_model_diff_add(&diff, &decode, &error);
}

TEST_WITH(again, NULL, the_same_bytes_are_checked_again_when_tables_are_others)
{
    assert_int_equal(add_bytes("b", 3, 3, 5), 0);
    assert_int_equal(add_bytes("b", 3, 3, 7), 0);
    assert_int_equal(values_of(0)[0], 2);
    assert_int_equal(diff.model.rows.n, 1);
    assert_int_equal(add_bytes("c", 3, 3, 9), 0); /* string 3 is another */
    assert_int_equal(diff.model.rows.n, 2);
    assert_int_equal(add_bytes("c", 4, 3, 10), 0); /* one location more */
    assert_int_equal(values_of(0)[0], 1);
    assert_int_equal(add_bytes("c", 2, 3, 11), -EBADMSG); /* there are only two */
    assert_string_equal(error.line, "byte 4: Sample.location_id 3 is no location's");
}

int main(void)
{
    dp_mem_cap(SIZE_MAX);
    return run_unit(NULL, NULL);
}
