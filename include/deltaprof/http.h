/* SPDX-License-Identifier: MIT */
/*
 * http.h - answers requests for /debug/pprof/... inside the host's own HTTP server.
 *
 * It uses no sockets and no framework: the host passes in the parsed request and reads the reply. Nothing here blocks,
 * except deltaprof_http_answer. The host must control access: a client can read all names and sizes in the process.
 *
 *     struct deltaprof_http_request request = {.method = "GET", .target = "/debug/pprof/delta_heap?cursor=a"};
 *     deltaprof_http_begin(&request, &reply);
 *     while (deltaprof_http_wait_ns(reply) > 0) ...come back then...
 *     send(deltaprof_http_status(reply), every deltaprof_http_header(reply, i, ...));
 *     while ((n = deltaprof_http_read(reply, buf, sizeof buf)) > 0) send(buf, n);
 *     deltaprof_http_end(reply, n == 0 && everything was sent);
 *
 * Context: any thread above the hooks. One reply is used by one thread at a time; different replies are independent. In
 * a child that was forked during a reply, reading that reply gives -ECANCELED, and only deltaprof_http_end may be
 * called on it.
 */
#pragma once

#include <deltaprof/deltaprof.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Set fields that you do not know to zero. The caller owns strings and body; they must live until begin returns. */
struct deltaprof_http_request {
    const char *method;  /* "GET", "HEAD", "POST" */
    const char *target;  /* path and query as received, percent-encoded; any prefix before /debug/pprof/ is allowed */
    const void *body;    /* of POST symbol */
    size_t n_body_bytes; /* at most 1 MiB is looked at; more is answered 413 */
};

struct deltaprof_http_reply;

/*
 * Begins a reply. A bad request gets a reply too, with an error status. Returns 0; -ENOMEM: no reply could be made;
 * -EINVAL: method or target is NULL. Ownership: the caller must end *reply.
 */
DELTAPROF_API int deltaprof_http_begin(const struct deltaprof_http_request *request,
                                       struct deltaprof_http_reply **reply);

/*
 * Returns 0 if the status is known and read can return bytes or the end now. Otherwise returns the number of
 * nanoseconds after which to call again (earlier is allowed): the window of ?seconds= has not passed, or the profiler's
 * thread is still making the profile.
 */
DELTAPROF_API int64_t deltaprof_http_wait_ns(struct deltaprof_http_reply *reply);

/*
 * Call these after wait_ns returned 0: if the profile could not be made, the status is then 503. An earlier call fixes
 * the status: a profile that cannot be made then appears as a truncated body. header returns 0, or 1 if there is no
 * header i. Strings live as long as the reply.
 */
DELTAPROF_API int deltaprof_http_status(const struct deltaprof_http_reply *reply);
DELTAPROF_API int deltaprof_http_header(const struct deltaprof_http_reply *reply, size_t i, const char **name,
                                        const char **value);

/*
 * Copies up to n_bytes of the body, and does no other work. Returns the number of bytes; 0: the end; -EAGAIN: none yet,
 * see wait_ns; another error: the profile could not be completed. Then close the connection without the proper end of a
 * body, and end the reply as not delivered.
 */
DELTAPROF_API ssize_t deltaprof_http_read(struct deltaprof_http_reply *reply, void *buf, size_t n_bytes);

/*
 * Ends and frees the reply; NULL is allowed. delivered: every byte was read and sent to the client. Only then the
 * cursor moves (with ?after=, only when the next request acknowledges it). A HEAD request moves no cursor.
 */
DELTAPROF_API void deltaprof_http_end(struct deltaprof_http_reply *reply, int delivered);

/*
 * The whole exchange, for a threaded server; blocks the calling thread during waits. head is called once, before the
 * first byte; write receives the body. Returns 0, or the first error of either; then the reply counts as not delivered.
 */
typedef int (*deltaprof_http_head_fn)(void *ctx, const struct deltaprof_http_reply *reply);
DELTAPROF_API int deltaprof_http_answer(const struct deltaprof_http_request *request, deltaprof_http_head_fn head,
                                        deltaprof_write_fn write, void *ctx);

#ifdef __cplusplus
}
#endif
