/* SPDX-License-Identifier: MIT */
/* tool/push/target.c - parses the URL of a receiver, and knows each receiver's path and limits. */
#include "tool/push/target.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MINUTE (INT64_C(60) * 1000000000)

/*
 * Events: Pyroscope would make a series of each value of a sample label, and Parca drops them; either would count the
 * events beside the profiles that sum them.
 *
 * Pyroscope refuses profiles that begin more than an hour ago or ten minutes ahead; five minutes and one are left for
 * the time until it reads the request.
 */
static const struct receiver {
    const char *scheme, *path;
    enum dp_push_protocol protocol;
    bool takes_events;
    struct dp_push_limits limits;
} receivers[] = {
    {"pyroscope+http",
     "/push.v1.PusherService/Push",
     DP_PUSH_PYROSCOPE,
     false,
     {16000, 4 << 20, 20, 55 * MINUTE, 9 * MINUTE}},
    {"parca+http", "/api/profiles/writeraw", DP_PUSH_PARCA, false, {0, 16 << 20, 20, 0, 0}},
    {"otlp+http", "/v1development/profiles", DP_PUSH_OTLP, true, {0, 8 << 20, 20, 0, 0}},
    {"pprof+http", "/v1/pprof", DP_PUSH_PPROF, true, {0, 0, 1, 0, 0}},
};

bool dp_push_target_takes_events(const char *address)
{
    size_t n_address = strlen(address);
    for (size_t i = 0; i < sizeof receivers / sizeof *receivers; i++) {
        size_t n = strlen(receivers[i].path);
        if (n_address >= n && !strcmp(address + n_address - n, receivers[i].path))
            return receivers[i].takes_events;
    }
    return true;
}

static const char allowed[] = "a receiver is pyroscope+http://HOST:PORT, parca+http://, otlp+http:// or pprof+http://, "
                              "or these with https";

int dp_push_target_parse(struct dp_push_target *target, const char *url, char *why, size_t n_why)
{
    const struct receiver *receiver = NULL;
    const char *host = NULL;
    bool is_tls = false;
    for (size_t i = 0; i < sizeof receivers / sizeof *receivers && !host; i++) {
        size_t n = strlen(receivers[i].scheme);
        if (strncmp(url, receivers[i].scheme, n))
            continue;
        receiver = &receivers[i];
        is_tls = url[n] == 's';
        host = url + n + is_tls;
        host = strncmp(host, "://", 3) ? NULL : host + 3;
    }
    size_t n = host ? strlen(host) : 0, n_authority = host ? strcspn(host, "/") : 0;
    if (!n_authority) {
        snprintf(why, n_why, "%s: %s", url, allowed);
        return -EINVAL;
    }
    if (memchr(host, '@', n_authority)) {
        snprintf(why, n_why, "a URL with a password can be read by all users of the machine: --token FILE");
        return -EINVAL;
    }
    for (const char *p = host; *p; p++)
        if (*p <= ' ' || *p >= 127 || strchr("?#\\\"", *p)) {
            snprintf(why, n_why, "%s: only a host, a port and a path may follow ://", url);
            return -EINVAL;
        }
    if (!dp_text_is_authority(host, n_authority)) {
        snprintf(why, n_why, "%s: behind :// comes HOST, HOST:PORT or [IPv6]:PORT, with a port from 1 to 65535", url);
        return -EINVAL;
    }
    while (n > n_authority && host[n - 1] == '/')
        n--;
    target->protocol = receiver->protocol;
    target->takes_events = receiver->takes_events;
    target->limits = receiver->limits;
    int n_text = snprintf(target->address, sizeof target->address, "http%s://%.*s%s", is_tls ? "s" : "", (int)n, host,
                          receiver->path);
    if (n_text < 0 || (size_t)n_text >= sizeof target->address) {
        snprintf(why, n_why, "the URL is longer than %zu bytes", sizeof target->address - 64);
        return -EINVAL;
    }
    return 0;
}
