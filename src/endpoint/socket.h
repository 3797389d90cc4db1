/* SPDX-License-Identifier: MIT */
/* endpoint/socket.h - the listening socket of the endpoint. Context: the serving thread, unless stated otherwise. */
#pragma once

#include "config/address.h"

/*
 * Listens on the first free port of the range, which *address then has, or on a socket file. Returns the descriptor, or
 * a negative errno. listen: the value of the key `listen`; kept.
 */
int dp_http_socket_open(struct dp_config_address *address, const char *listen);

/* Removes the socket file, if this process made it and it is still there. Any thread. */
void dp_http_socket_remove_file(void);

/* In a forked child: the file belongs to its parent. Only stores. */
void dp_http_socket_fork_child(void);
