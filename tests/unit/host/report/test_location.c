/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/objects/frames.h"
#include "host/report/location.h"
#include "host/report/profile.h"
#include "host/report/settings.h"
#include "support/compat.h"

#define N_OURS 64

static int drop(void *ctx, const void *bytes, size_t n_bytes)
{
    (void)ctx;
    (void)bytes;
    (void)n_bytes;
    return 0;
}

static void begin(struct dp_locations *l, struct dp_symbols_files *files)
{
    struct dp_encode *encode = dp_encode_new(drop, NULL);
    struct dp_location_settings settings = {.symbolize = DP_SYMBOLIZE_FUNCTIONS, .files = files};
    memset(l, 0, sizeof *l);
    assert_non_null(encode);
    assert_int_equal(dp_locations_begin(l, encode, &settings), 0);
}

static void end(struct dp_locations *l)
{
    assert_int_equal(dp_locations_end(l), 0);
    dp_locations_fini(l);
    dp_encode_free(l->encode);
}

static int starts(void **state);
static pthread_barrier_t opened, may_end;

/* A report on a thread with a descriptor table of its own, whose numbers begin low. */
static void *elsewhere(void *unused)
{
    struct dp_locations l;
    struct dp_symbols_files files = {0};
    assert_int_equal(unshare(CLONE_FILES), 0);
    assert_int_equal(syscall(SYS_close_range, 3u, ~0u, 0u), 0);
    begin(&l, &files);
    assert_true(dp_locations_frame(&l, dp_frame_intern((uintptr_t)elsewhere)));
    assert_true(fcntl(3, F_GETFD) >= 0); /* it has the file of its symbols open */
    pthread_barrier_wait(&opened);
    pthread_barrier_wait(&may_end);
    end(&l);
    assert_true(fcntl(3, F_GETFD) >= 0);
    dp_symbols_close(&files);
    assert_true(fcntl(3, F_GETFD) < 0);
    return unused;
}

TEST(a_report_closes_what_it_opened_and_nothing_of_another_table)
{
    int ours[N_OURS];
    struct dp_locations l;
    struct dp_symbols_files files = {0};
    pthread_t thread;
    pthread_barrier_init(&opened, NULL, 2);
    pthread_barrier_init(&may_end, NULL, 2);
    for (int i = 0; i < N_OURS; i++)
        assert_true((ours[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    assert_int_equal(pthread_create(&thread, NULL, elsewhere, NULL), 0);
    pthread_barrier_wait(&opened);
    begin(&l, &files);
    pthread_barrier_wait(&may_end);
    pthread_join(thread, NULL);
    end(&l);
    dp_symbols_close(&files);
    for (int i = 0; i < N_OURS; i++)
        assert_true(fcntl(ours[i], F_GETFD) >= 0);
    for (int i = 0; i < N_OURS; i++)
        close(ours[i]);
}

/* The profiles of a tick name mostly the same functions, so the second one finds the files open. */
TEST(the_next_report_goes_on_with_the_open_files)
{
    struct dp_locations l;
    struct dp_symbols_files files = {0};
    begin(&l, &files);
    assert_true(dp_locations_frame(&l, dp_frame_intern((uintptr_t)starts)));
    end(&l);
    const void *session = files.by[DP_SYMBOL_BY_SYMBOLS].session;
    assert_non_null(session);
    begin(&l, &files);
    assert_true(dp_locations_frame(&l, dp_frame_intern((uintptr_t)begin)));
    end(&l);
    assert_ptr_equal(files.by[DP_SYMBOL_BY_SYMBOLS].session, session);
    dp_symbols_close(&files);
    assert_null(files.by[DP_SYMBOL_BY_SYMBOLS].session);
}

static int starts(void **state)
{
    struct dp_config conf;
    dp_config_init(&conf);
    (void)state;
    return dp_frames_init(4u << 20) || dp_report_init(&conf);
}

UNIT(starts, NULL)
