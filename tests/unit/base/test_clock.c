/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include "support/unit.h"
#include <signal.h>
#include <sys/time.h>

#include "base/clock.h"

enum { STOPPED_NS = 3000000, TURNS = 200 };

static volatile sig_atomic_t n_stopped;

/* Stops the thread wherever it is, as a scheduler does. */
static void stop_for_long(int number)
{
    for (int64_t until_ns = dp_clock_ns() + STOPPED_NS; dp_clock_ns() < until_ns;)
        ;
    n_stopped++;
}

TEST(a_thread_that_is_stopped_between_two_clocks_reads_them_again)
{
    struct itimerval often = {{0, 4000}, {0, 4000}};
    int64_t mono_ns = 0, wall_ns = 0, first_ns, most_ns = 0;
    dp_clock_moment(&mono_ns, &wall_ns);
    first_ns = wall_ns - mono_ns;
    signal(SIGALRM, stop_for_long);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    while (n_stopped < TURNS) {
        dp_clock_moment(&mono_ns, &wall_ns);
        int64_t off_ns = llabs(wall_ns - mono_ns - first_ns);
        most_ns = off_ns > most_ns ? off_ns : most_ns;
    }
    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    assert_in_range(most_ns, 0, STOPPED_NS / 2); /* the wall clock may be slewed meanwhile */
}

UNIT(NULL, NULL)
