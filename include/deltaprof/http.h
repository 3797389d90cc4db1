/* SPDX-License-Identifier: MIT */
/*
 * http.h - answer /debug/pprof/... inside a server that is already there.
 *
 * No sockets and no framework: the host hands in what it parsed, and pulls the reply. Nothing here blocks, except
 * deltaprof_http_answer, which says so. Access control is the host's: whoever may ask, may read every name and size in
 * the process.
 *
 *     struct deltaprof_http_request request = {.method = "GET", .target = "/debug/pprof/delta_heap?cursor=a"};
 *     deltaprof_http_begin(&request, &reply);
 *     while (deltaprof_http_wait_ns(reply) > 0) ...come back then...
 *     send(deltaprof_http_status(reply), every deltaprof_http_header(reply, i, ...));
 *     while ((n = deltaprof_http_read(reply, buf, sizeof buf)) > 0) send(buf, n);
 *     deltaprof_http_end(reply, n == 0 && everything was sent);
 *
 * Context: any thread above the hooks. One reply is used by one thread at a time; different replies are independent.
 * In a child forked while a reply was under way, that reply reads -ECANCELED and must only be ended.
 */
#pragma once

#include <deltaprof/deltaprof.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero what is not known. Strings and body stay the caller's, and must live until begin returns. */
struct deltaprof_http_request {
    const char *method;  /* "GET", "HEAD", "POST" */
    const char *target;  /* path and query as they came, percent-encoded; any prefix before /debug/pprof/ */
    const void *body;    /* of POST symbol */
    size_t n_body_bytes; /* at most 1 MiB is looked at; more is answered 413 */
};

struct deltaprof_http_reply;

/*
 * Begins a reply; whatever the request asks for, an error is a reply too. -ENOMEM: none could be made. -EINVAL: a NULL
 * method or target. Ownership: the caller ends *reply, always.
 */
DELTAPROF_API int deltaprof_http_begin(const struct deltaprof_http_request *request,
                                       struct deltaprof_http_reply **reply);

/*
 * 0: the status is known, and read gives bytes, or the end, now. Else come back in about so many nanoseconds, or
 * earlier: a window of ?seconds= has not passed, or the profile is being made on our own thread.
 */
DELTAPROF_API int64_t deltaprof_http_wait_ns(struct deltaprof_http_reply *reply);

/*
 * To be asked once wait_ns has said 0: a profile that could not be made is then 503. Asked earlier they answer too, and
 * hold: such a profile is then a body that is cut. header gives 0, or 1 when there is no header i. Strings live as long
 * as the reply.
 */
DELTAPROF_API int deltaprof_http_status(const struct deltaprof_http_reply *reply);
DELTAPROF_API int deltaprof_http_header(const struct deltaprof_http_reply *reply, size_t i, const char **name,
                                        const char **value);

/*
 * Copies up to n_bytes of the body; bounded work, never more than that copy. The number of bytes; 0: the end;
 * -EAGAIN: none yet, see wait_ns; any other: the profile could not be completed, so end the connection without the
 * proper end of a body and end the reply as not delivered.
 */
DELTAPROF_API ssize_t deltaprof_http_read(struct deltaprof_http_reply *reply, void *buf, size_t n_bytes);

/*
 * Ends and frees the reply; NULL is fine. delivered: every byte was read and handed to the client; then, and only
 * then, the cursor moves (with ?after=, when the next request acknowledges it). HEAD moves nothing.
 */
DELTAPROF_API void deltaprof_http_end(struct deltaprof_http_reply *reply, int delivered);

/*
 * The whole exchange for a threaded server; blocks the calling thread through waits. head is called once, before the
 * first byte; write takes the body. 0, or the first error of either, after which nothing counts as delivered.
 */
typedef int (*deltaprof_http_head_fn)(void *ctx, const struct deltaprof_http_reply *reply);
DELTAPROF_API int deltaprof_http_answer(const struct deltaprof_http_request *request, deltaprof_http_head_fn head,
                                        deltaprof_write_fn write, void *ctx);

#ifdef __cplusplus
}
#endif
