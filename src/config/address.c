/* SPDX-License-Identifier: MIT */
/* config/address.c - parses addresses to listen at; address.h describes the syntax. */
#include "config/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

static bool port(const char **text, uint16_t *value)
{
    unsigned n = 0;
    const char *at = *text;
    while (*at >= '0' && *at <= '9' && n < 65536)
        n = n * 10 + (unsigned)(*at++ - '0');
    if (at == *text || n == 0 || n > 65535)
        return false;
    *value = (uint16_t)n;
    *text = at;
    return true;
}

static bool host(struct dp_config_address *a, const char *from, size_t n_bytes)
{
    char text[INET6_ADDRSTRLEN + 1];
    if (n_bytes >= sizeof text)
        return false;
    memcpy(text, from, n_bytes);
    text[n_bytes] = 0;
    if (!strcmp(text, "localhost"))
        strcpy(text, "127.0.0.1");
    else if (!strcmp(text, "*"))
        strcpy(text, "0.0.0.0");
    if (inet_pton(AF_INET, text, &a->in.sin_addr) == 1) {
        a->in.sin_family = AF_INET;
        a->n_bytes = sizeof a->in;
        a->local = (ntohl(a->in.sin_addr.s_addr) >> 24) == 127;
        return true;
    }
    if (inet_pton(AF_INET6, text, &a->in6.sin6_addr) == 1) {
        a->in6.sin6_family = AF_INET6;
        a->n_bytes = sizeof a->in6;
        a->local = IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
        return true;
    }
    return false;
}

int dp_config_address_parse(struct dp_config_address *a, const char *text)
{
    memset(a, 0, sizeof *a);
    if (!strncmp(text, "unix:", 5)) {
        size_t n = strlen(text + 5);
        if (!n || n >= sizeof a->un.sun_path)
            return -EINVAL;
        a->un.sun_family = AF_UNIX;
        memcpy(a->un.sun_path, text + 5, n + 1);
        a->n_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
        a->local = true;
        return 0;
    }
    const char *colon = strrchr(text, ':');
    if (!colon)
        return -EINVAL;
    const char *from = text, *to = colon;
    if (*from == '[') {
        if (to - from < 3 || to[-1] != ']')
            return -EINVAL;
        from++;
        to--;
    } else if (memchr(from, ':', (size_t)(to - from))) {
        return -EINVAL; /* an IPv6 literal without brackets: which colon is the port's? */
    }
    const char *at = colon + 1;
    if (!host(a, from, (size_t)(to - from)) || !port(&at, &a->first_port))
        return -EINVAL;
    a->last_port = a->first_port;
    if (*at == '-') {
        at++;
        if (!port(&at, &a->last_port) || a->last_port < a->first_port)
            return -EINVAL;
    }
    if (*at)
        return -EINVAL;
    dp_config_address_set_port(a, a->first_port);
    return 0;
}

void dp_config_address_set_port(struct dp_config_address *a, uint16_t value)
{
    if (a->any.sa_family == AF_INET)
        a->in.sin_port = htons(value);
    else if (a->any.sa_family == AF_INET6)
        a->in6.sin6_port = htons(value);
}
