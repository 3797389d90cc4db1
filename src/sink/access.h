/* SPDX-License-Identifier: MIT */
/*
 * sink/access.h - who may ask the embedded endpoint.
 *
 * Without a token only this machine may ask, and on loopback only by an address: a page in a browser that was given our
 * address under a name of its own (DNS rebinding) sends that name as Host and is refused. No page reaches a socket
 * file. With a token, the token decides.
 */
#pragma once

#include <stdbool.h>

/* token_path "": none. loopback: a browser of this machine can reach the socket. Context: before the first check. */
void dp_access_init(const char *token_path, bool loopback);

/* 200; 401: no or a wrong token; 403: Host; 503: the token file cannot be read. Headers may be NULL. */
int dp_access_check(const char *host, const char *authorization, const char **message);
