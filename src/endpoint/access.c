/* SPDX-License-Identifier: MIT */
/*
 * endpoint/access.c - checks the Host, the site that a browser asks for, and the token.
 *
 * The token is the first line of a file, read again whenever the file's identity, size or time changed, so that a
 * secret can be rotated under a running process. It is compared in constant time: a client can measure its length, but
 * not its content.
 */
#include "endpoint/access.h"

#include "base/log.h"
#include "base/mem.h"
#include "config/file.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_BYTES 512

static DP_LARGE char path[4096];
static bool by_address_only;
static struct stat seen;
static DP_LARGE char token[TOKEN_BYTES];
static size_t n_token;

/* "localhost", or an IP literal, with or without a port. */
static bool is_address(const char *host)
{
    char text[INET6_ADDRSTRLEN + 1];
    const char *from = host, *to;
    unsigned char bytes[16];
    if (*from == '[') {
        to = strchr(++from, ']');
        if (!to || (to[1] && to[1] != ':'))
            return false;
    } else {
        to = from + strcspn(from, ":");
    }
    if ((size_t)(to - from) >= sizeof text)
        return false;
    memcpy(text, from, (size_t)(to - from));
    text[to - from] = 0;
    return !strcasecmp(text, "localhost") || inet_pton(AF_INET, text, bytes) == 1 ||
           inet_pton(AF_INET6, text, bytes) == 1;
}

static bool read_token(void)
{
    struct stat now;
    if (stat(path, &now))
        return false;
    if (now.st_ino == seen.st_ino && now.st_dev == seen.st_dev && now.st_size == seen.st_size &&
        now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return n_token > 0;
    int fd = dp_config_file_open(path);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, token, sizeof token);
    close(fd);
    n_token = 0;
    if (n <= 0 || n == sizeof token)
        return false;
    while (n_token < (size_t)n && token[n_token] != '\n' && token[n_token] != '\r' && token[n_token])
        n_token++;
    seen = now;
    return n_token > 0;
}

void dp_http_access_init(const char *token_path, bool loopback)
{
    strncpy(path, token_path, sizeof path - 1);
    by_address_only = loopback && !*token_path;
    memset(&seen, 0, sizeof seen);
    n_token = 0;
    if (*path && !read_token())
        dp_log(DP_LOG_ERROR,
               "token=%s: the file cannot be read or has no token, requests are refused with 503 until it has", path);
}

static bool same(const char *given, size_t n)
{
    unsigned differs = n != n_token;
    for (size_t i = 0; i < n_token; i++)
        differs |= (unsigned char)token[i] ^ (unsigned char)(i < n ? given[i] : 0);
    return !differs;
}

static int sextet(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The password of Basic authentication: the decoded text after the first colon. */
static bool password(const char *text, char *out, size_t size, size_t *n_out)
{
    uint32_t bits = 0;
    unsigned n_bits = 0;
    size_t n = 0;
    bool past_colon = false;
    for (; *text && *text != '=' && *text != ' '; text++) {
        int value = sextet(*text);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        char c = (char)(bits >> n_bits & 255);
        if (past_colon) {
            if (n == size)
                return false;
            out[n++] = c;
        }
        past_colon |= c == ':';
    }
    *n_out = n;
    return past_colon;
}

/* Whether origin is "http://HOST" with the request's Host; "null" is a page without a site. */
static bool is_own_origin(const char *origin, const char *host)
{
    const char *at = strstr(origin, "://");
    return at && host && !strcasecmp(at + 3, host);
}

/*
 * Browsers say in Sec-Fetch-Site whether the page is of another site; older ones send Origin, but not with every GET.
 */
static bool is_of_another_site(const struct dp_http_access_headers *h)
{
    if (h->fetch_site)
        return strcasecmp(h->fetch_site, "same-origin") && strcasecmp(h->fetch_site, "none");
    return h->origin && !is_own_origin(h->origin, h->host);
}

int dp_http_access_check(const struct dp_http_access_headers *headers, const char **message)
{
    const char *host = headers->host, *authorization = headers->authorization;
    if (is_of_another_site(headers)) {
        *message = "a page of another site sent this request; open the address itself";
        return 403;
    }
    if (by_address_only && host && *host && !is_address(host)) {
        *message = "without a token, this endpoint accepts only an IP address or localhost as Host";
        return 403;
    }
    if (!*path)
        return 200;
    if (!read_token()) {
        *message = "the endpoint's token file cannot be read, or its first line is empty";
        return 503;
    }
    char given[TOKEN_BYTES];
    size_t n = 0;
    bool right = false;
    if (authorization && !strncasecmp(authorization, "Bearer ", 7)) {
        const char *text = authorization + 7 + strspn(authorization + 7, " ");
        right = same(text, strlen(text));
    } else if (authorization && !strncasecmp(authorization, "Basic ", 6)) {
        const char *text = authorization + 6 + strspn(authorization + 6, " ");
        right = password(text, given, sizeof given, &n) && same(given, n);
    }
    *message = "this endpoint requires its token, as Bearer or as the password of Basic";
    return right ? 200 : 401;
}
