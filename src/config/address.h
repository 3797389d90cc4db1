/* SPDX-License-Identifier: MIT */
/*
 * config/address.h - parses the value of `listen`: HOST:PORT, HOST:PORT-PORT or unix:PATH. Pure. HOST is an IP literal
 * (IPv6 in brackets), localhost (127.0.0.1) or * (every IPv4 address); other names are not resolved.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>

struct dp_config_address {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    };
    socklen_t n_bytes;
    uint16_t first_port, last_port; /* 0 for a socket file */
    bool local;                     /* loopback, or a socket file */
};

/* 0, or -EINVAL. */
int dp_config_address_parse(struct dp_config_address *address, const char *text);
void dp_config_address_set_port(struct dp_config_address *address, uint16_t port);
