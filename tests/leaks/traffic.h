// SPDX-License-Identifier: MIT
// traffic.h - the short-lived blocks of a server; IN_FLIGHT of them are in use. To be included once in a program.
#pragma once

#include <cstdint>
#include <cstdlib>

static uint64_t state = 88172645463325252;
static char *requests[IN_FLIGHT];

unsigned next_random(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<unsigned>(state >> 33) % below;
}

OWN static char *parse_request()
{
    return xmalloc(2048 + next_random(4096));
}

OWN static char *render_page()
{
    return xmalloc(8192 + next_random(16384));
}

OWN static char *query_table()
{
    return xmalloc(512 + next_random(32768));
}

OWN static void traffic(int n_requests)
{
    char *(*const handlers[])() = {parse_request, render_page, query_table};
    for (int i = 0; i < n_requests; i++) {
        char **at = &requests[next_random(IN_FLIGHT)];
        free(*at);
        *at = handlers[i % 3]();
    }
}
