/* SPDX-License-Identifier: MIT */
/* What people are told of an address of data: variables, blocks, stacks and other mappings. */
#include "host/report/data_place.h"

#include "base/task.h"
#include "host/api/recording.h"
#include "host/objects/frames.h"
#include "host/report/settings.h"
#include "host/symbols/maps.h"
#include "host/symbols/symbols_lock.h"

#include <deltaprof/hooks.h>

#include "support/unit.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, MAPPINGS = 4, BLOCK = 96 };

long place_words[4];
static struct dp_symbols_files files;
static char text[160];

static const char *place_of(const void *at)
{
    const struct dp_location_settings how = {.symbolize = DP_SYMBOLIZE_FUNCTIONS, .files = &files};
    dp_frame_id frame = dp_frame_intern_data((uintptr_t)at);
    memset(text, 'x', sizeof text);
    size_t n = dp_report_data_place((uintptr_t)at, frame, &how, text, sizeof text);
    assert_true(n < sizeof text);
    text[n] = '\0';
    return text;
}

TEST(variables_have_their_names)
{
    static long numbered[2]; /* gcc adds a number to its name, which is left out; clang puts the function before it */
    assert_string_equal(place_of(&place_words[0]), "place_words");
    assert_string_equal(place_of(&place_words[3]), "place_words+0x18");
    assert_string_equal(place_of((char *)&place_words[4] - 1), "place_words+0x1f");
    assert_non_null(strstr(place_of(&numbered[1]), "numbered+0x8"));
    assert_string_equal(place_of(NULL), "");
    const struct dp_location_settings how = {.symbolize = DP_SYMBOLIZE_NONE, .files = &files};
    size_t n = dp_report_data_place((uintptr_t)place_words, dp_frame_intern_data((uintptr_t)place_words), &how, text,
                                    sizeof text);
    text[n] = '\0';
    assert_ptr_equal(strstr(text, "test_data_place+0x"), text);
}

/* ---- mappings ---- */

static pthread_barrier_t begun;
static int may_end[2]; /* a pipe */
static char *of_thread;
static int32_t tid;

static void *waits(void *unused)
{
    char local[64] = "";
    prctl(PR_SET_NAME, "diver");
    of_thread = local;
    tid = gettid();
    pthread_barrier_wait(&begun);
    (void)!read(may_end[0], local, 1);
    return unused;
}

/* The mappings are read once a second, so all are made before. */
TEST(mappings_are_told_apart)
{
    char name[] = "/tmp/deltaprof-test-XXXXXX", *at[MAPPINGS], local = 0;
    static const char *const wanted[MAPPINGS] = {"in anonymous memory", "in shared memory", "in a mapped file", ""};
    int fd = mkstemp(name), protection = PROT_READ | PROT_WRITE;
    pthread_t thread;
    assert_true(fd >= 0 && !unlink(name) && !ftruncate(fd, PAGE));
    at[0] = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at[1] = mmap(NULL, PAGE, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    at[2] = mmap(NULL, PAGE, protection, MAP_PRIVATE, fd, 0);
    at[3] = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* nothing is there */
    char *allocated = malloc(100);
    pthread_barrier_init(&begun, NULL, 2);
    assert_int_equal(pipe(may_end), 0);
    assert_int_equal(pthread_create(&thread, NULL, waits, NULL), 0);
    pthread_barrier_wait(&begun);
    struct dp_task_call call = {.number = DP_TASK_RUNS};
    for (int i = 0; call.number != SYS_read && i < 60000; i++, usleep(1000)) /* until it has a stack pointer to read */
        dp_task_call_read(0, tid, &call);
    assert_string_equal(place_of(allocated), "in the heap");
    assert_string_equal(place_of(&local), "on the stack of the main thread");
    assert_string_equal(place_of(of_thread), "on the stack of thread diver");
    for (int i = 0; i < MAPPINGS; i++) {
        assert_string_equal(place_of(at[i] + (i < 3 ? 0 : 32 * PAGE)), wanted[i]);
        if (i < 3)
            assert_string_equal(place_of(at[i] + PAGE - 1), wanted[i]);
    }
    assert_string_equal(place_of((const void *)(uintptr_t)4096), "");
    assert_string_equal(place_of(of_thread), "on the stack of thread diver"); /* the last one that was asked is kept */
    assert_int_equal(write(may_end[1], "", 1), 1);
    pthread_join(thread, NULL);
    assert_string_equal(place_of(of_thread), "on the stack of thread diver");
    place_of(at[1]);
    munmap(at[1], PAGE);
    assert_string_equal(place_of(at[1]), "in shared memory");
    for (int i = 0; i < MAPPINGS; i++)
        munmap(at[i], i < 3 ? PAGE : 64 * PAGE);
    free(allocated);
    close(fd);
}

/* ---- blocks ---- */

static char *volatile block;

__attribute__((noinline)) void place_xmalloc(size_t n_bytes)
{
    deltaprof_alloc(0, block, n_bytes);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void place_builds_cache(void)
{
    place_xmalloc(BLOCK);
    __asm__ volatile("" ::: "memory");
}

TEST(a_block_has_the_function_that_wanted_it)
{
    block = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct dp_config conf;
    dp_config_init(&conf);
    conf.heap_rate = 1;
    dp_record_tune(&conf, true);
    deltaprof_guard_reset();
    place_builds_cache();
    assert_string_equal(place_of(block), "in a block of 96 bytes allocated by place_builds_cache");
    assert_string_equal(place_of(block + BLOCK - 1), "in a block of 96 bytes allocated by place_builds_cache");
    assert_string_not_equal(place_of(block + BLOCK), "in a block of 96 bytes allocated by place_builds_cache");
    place_of(block); /* the last one that was asked is kept */
    deltaprof_free(0, block);
    assert_string_equal(place_of(block), "in a block of 96 bytes allocated by place_builds_cache"); /* as it was */
    assert_string_not_equal(place_of(block + 1), "in a block of 96 bytes allocated by place_builds_cache");
}

static int read_maps(void **state)
{
    dp_symbols_lock(true);
    int err = dp_symbols_maps_begin();
    dp_symbols_unlock();
    return err;
}

int main(void)
{
    struct dp_config conf;
    dp_config_init(&conf);
    return dp_record_init(&conf) || dp_report_init(&conf) || run_unit(read_maps, NULL);
}
