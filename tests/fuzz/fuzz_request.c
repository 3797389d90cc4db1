/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the parts of a request that a client controls, without a socket: method, target, Host, Authorization, Origin
 * and Sec-Fetch-Site, one line each. For any input the result must be complete: a valid HTTP status, terminated text,
 * settings in their range.
 */
#include "config/address.h"
#include "endpoint/access.h"
#include "endpoint/request.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(truth) ((truth) ? (void)0 : abort())

static void judge(const char *method, const char *target)
{
    struct dp_http_request r;
    dp_http_request_parse(&r, method, target);
    CHECK(memchr(r.cursor, 0, sizeof r.cursor));
    CHECK(r.seconds >= 0 && r.seconds <= DP_SECONDS_MAX);
    CHECK((r.page == DP_HTTP_PAGE_ERROR) == (r.status != 200));
    CHECK(r.page != DP_HTTP_PAGE_ERROR || (r.status >= 301 && r.status < 600 && *r.message));
    if (r.page == DP_HTTP_PAGE_PROFILE) {
        CHECK(r.profile && r.kind < DP_KIND_DELTAS && !(r.text && r.profile->is_delta) && !(r.text && r.seconds));
        CHECK(!r.cursor[0] || r.profile->is_delta);
        CHECK(r.max_samples >= 0 && r.max_samples <= DP_MAX_SAMPLES_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    char *text = malloc(n_bytes + 1), *line[6] = {"", "", "", ""}, *rest = text;
    if (!text)
        return 0;
    memcpy(text, bytes, n_bytes);
    text[n_bytes] = 0;
    for (int i = 0; i < 6 && rest; i++)
        line[i] = strsep(&rest, "\n");
    judge(line[0], line[1]);
    judge("GET", line[1]);

    const char *message = "";
    struct dp_config_address address;
    struct dp_http_access_headers headers = {line[2], line[3], line[4], line[5]};
    dp_http_access_init("", true);
    int status = dp_http_access_check(&headers, &message);
    CHECK(status == 200 || (status == 403 && *message));
    dp_http_access_init("/proc/self/comm", false); /* a short first line */
    status = dp_http_access_check(&headers, &message);
    CHECK(status == 200 || status == 401 || status == 503 || (status == 403 && (line[4] || line[5])));
    if (!dp_config_address_parse(&address, line[2]))
        CHECK(address.n_bytes && address.first_port <= address.last_port);
    free(text);
    return 0;
}
