/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/pushers.c - starts deltaprof-push, and starts it again if it ended.
 */
#include "tool/serve/pushers.h"

#include "base/clock.h"
#include "tool/query/print.h"
#include "tool/serve/child.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGAIN_NS  INT64_C(1000000000)
#define LAST_TIME "10s"

static void start(struct dp_serve_pushers *p, size_t i, bool is_last)
{
    char *argv[] = {(char *)"deltaprof push",          (char *)p->dir,   (char *)"--to",    (char *)p->urls[i],
                    is_last ? (char *)"--once" : NULL, (char *)"--wait", (char *)LAST_TIME, NULL};
    pid_t pid = dp_serve_child_start(p->program, argv, -1);
    if (pid < 0)
        dp_query_print_error("serve", "--to %s: deltaprof-push cannot be started: %s", p->urls[i], strerror(errno));
    p->at[i].pid = pid > 0 ? pid : 0;
}

void dp_serve_pushers_start(struct dp_serve_pushers *p)
{
    int64_t now_ns = dp_clock_coarse_ns();
    for (size_t i = 0; i < p->n; i++) {
        if (p->at[i].pid && waitpid(p->at[i].pid, NULL, WNOHANG) == p->at[i].pid) {
            p->at[i].pid = 0; /* it has said why */
            p->at[i].not_before_ns = now_ns + AGAIN_NS;
        }
        if (!p->at[i].pid && now_ns >= p->at[i].not_before_ns) {
            p->at[i].not_before_ns = now_ns + AGAIN_NS;
            start(p, i, false);
        }
    }
}

static void wait_for_all(struct dp_serve_pushers *p)
{
    for (size_t i = 0; i < p->n; i++)
        while (p->at[i].pid && waitpid(p->at[i].pid, NULL, 0) < 0 && errno == EINTR)
            continue;
}

void dp_serve_pushers_finish(struct dp_serve_pushers *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i].pid)
            kill(p->at[i].pid, SIGTERM);
    wait_for_all(p);
    for (size_t i = 0; i < p->n; i++)
        start(p, i, true);
    wait_for_all(p);
}
