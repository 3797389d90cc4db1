/* SPDX-License-Identifier: MIT */
/*
 * http/access.h - who may ask the embedded endpoint.
 *
 * Without a token only this machine may ask, and on loopback only by an address: a page in a browser that was given our
 * address under a name of its own (DNS rebinding) sends that name as Host and is refused. No page reaches a socket
 * file. With a token, the token decides.
 *
 * A page of another site can make a browser send us a request even though it may not read the reply, and a request
 * moves a cursor. Browsers mark such requests: they are refused, with a token too, since browsers send passwords along.
 */
#pragma once

#include <stdbool.h>

/* token_path "": none. loopback: a browser of this machine can reach the socket. Context: before the first check. */
void dp_access_init(const char *token_path, bool loopback);

/* The request's headers that are looked at; NULL: not sent. */
struct dp_access_headers {
    const char *host, *authorization, *origin, *fetch_site; /* Sec-Fetch-Site */
};

/* 200; 401: no or a wrong token; 403: Host, or a page of another site; 503: the token file cannot be read. */
int dp_access_check(const struct dp_access_headers *, const char **message);
