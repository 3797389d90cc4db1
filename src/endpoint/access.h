/* SPDX-License-Identifier: MIT */
/*
 * endpoint/access.h - decides whether a request to the embedded endpoint is allowed.
 *
 * Without a token only this machine may send requests, and on loopback only with an address as Host: if a web page
 * makes a browser connect here under a DNS name (DNS rebinding), the browser sends that name as Host and the request is
 * refused. A page cannot reach a socket file. With a token, the token decides.
 *
 * A page of another site can make a browser send a request here, though it cannot read the reply, and a request moves a
 * cursor. Browsers mark such requests. They are refused, even with a token, since browsers add passwords by themselves.
 */
#pragma once

#include <stdbool.h>

/*
 * token_path "": no token. loopback: a browser on this machine can reach the socket. Context: before the first check.
 */
void dp_http_access_init(const char *token_path, bool loopback);

/* The headers of the request that are checked; NULL: not sent. */
struct dp_http_access_headers {
    const char *host, *authorization, *origin, *fetch_site; /* Sec-Fetch-Site */
};

/*
 * Returns 200; 401: no token or a wrong one; 403: a wrong Host, or a page of another site; 503: the token file cannot
 * be read.
 */
int dp_http_access_check(const struct dp_http_access_headers *, const char **message);
