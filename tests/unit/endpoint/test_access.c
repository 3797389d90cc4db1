/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "support/unit.h"

#include "config/address.h"
#include "endpoint/access.h"

static int check(const char *host, const char *authorization)
{
    const char *message;
    return dp_http_access_check(&(struct dp_http_access_headers){.host = host, .authorization = authorization},
                                &message);
}

static void write_token(const char *path, const char *text)
{
    char fresh[100];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *f = fopen(fresh, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(rename(fresh, path), 0);
}

TEST(without_a_token_only_addresses_are_answered)
{
    dp_http_access_init("", true);
    static const char *const good[] = {"127.0.0.1",  "127.0.0.1:6060", "localhost", "LocalHost:80",
                                       "[::1]:6060", "[::1]",          "10.1.2.3:1"};
    static const char *const bad[] = {"evil.example",
                                      "evil.example:6060",
                                      "127.0.0.1.evil.example",
                                      "localhost.evil",
                                      "[::1]evil",
                                      "[::1",
                                      "1.2.3",
                                      "x"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(check(good[i], NULL), 200);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(check(bad[i], NULL), 403);
    assert_int_equal(check(NULL, NULL), 200); /* HTTP/1.0; no browser is so old */
}

TEST(a_token_is_taken_as_bearer_or_as_the_password_of_basic)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/deltaprof-token-%d", (int)getpid());
    write_token(path, "s3cret:x\nsecond line\n");
    dp_http_access_init(path, true);
    assert_int_equal(check("any.name", NULL), 401);
    assert_int_equal(check(NULL, "Bearer s3cret:x"), 200);
    assert_int_equal(check(NULL, "bearer  s3cret:x"), 200);
    assert_int_equal(check(NULL, "Bearer s3cret:"), 401);
    assert_int_equal(check(NULL, "Bearer s3cret:xy"), 401);
    assert_int_equal(check(NULL, "Bearer "), 401);
    assert_int_equal(check(NULL, "Basic dXNlcjpzM2NyZXQ6eA=="), 200); /* user:s3cret:x */
    assert_int_equal(check(NULL, "Basic dXNlcjpzM2NyZXQ6eQ=="), 401);
    assert_int_equal(check(NULL, "Basic czNjcmV0"), 401); /* no colon */
    assert_int_equal(check(NULL, "Basic !!"), 401);
    assert_int_equal(check(NULL, "Digest x"), 401);
    write_token(path, "another\n");
    assert_int_equal(check(NULL, "Bearer s3cret:x"), 401);
    assert_int_equal(check(NULL, "Bearer another"), 200);
    write_token(path, "\n");
    assert_int_equal(check(NULL, "Bearer "), 503);
    unlink(path);
    assert_int_equal(check(NULL, "Bearer another"), 503);
}

TEST(a_token_of_511_bytes_is_read_and_a_longer_one_is_none)
{
    char path[64], text[513], header[600];
    snprintf(path, sizeof path, "/tmp/deltaprof-token-long-%d", (int)getpid());
    memset(text, 'k', sizeof text);
    for (int n_bytes = 510; n_bytes <= 512; n_bytes++) {
        text[n_bytes] = 0;
        write_token(path, text);
        dp_http_access_init(path, true);
        snprintf(header, sizeof header, "Bearer %s", text);
        assert_int_equal(check(NULL, header), n_bytes < 512 ? 200 : 503);
        assert_int_equal(check(NULL, "Bearer kkk"), n_bytes < 512 ? 401 : 503);
        text[n_bytes] = 'k';
    }
    unlink(path);
}

/* Gives the file a time, so that it does not depend on the clock. */
static void set_time(const char *path, long ns)
{
    const struct timespec times[2] = {{1000000000, ns}, {1000000000, ns}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Overwrites the bytes of the file in its place. */
static void overwrite(const char *path, const char *text)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

TEST(a_file_with_another_number_size_or_time_is_read_again)
{
    char path[64], other[80];
    snprintf(path, sizeof path, "/tmp/deltaprof-token-again-%d", (int)getpid());
    snprintf(other, sizeof other, "%s.other", path);
    write_token(path, "first");
    set_time(path, 0);
    dp_http_access_init(path, true);
    assert_int_equal(check(NULL, "Bearer first"), 200);
    write_token(other, "secnd");
    set_time(other, 0);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(check(NULL, "Bearer secnd"), 200);
    overwrite(path, "third and");
    set_time(path, 0);
    assert_int_equal(check(NULL, "Bearer third and"), 200);
    overwrite(path, "forth and");
    set_time(path, 1);
    assert_int_equal(check(NULL, "Bearer forth and"), 200);
    unlink(path);
}

/* A request must not keep the endpoint's thread waiting for a writer. */
TEST(a_token_in_a_pipe_is_no_token)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/deltaprof-token-pipe-%d", (int)getpid());
    assert_int_equal(mkfifo(path, 0600), 0);
    dp_http_access_init(path, true);
    alarm(20);
    assert_int_equal(check(NULL, "Bearer x"), 503);
    alarm(0);
    unlink(path);
}

static int check_page(const char *host, const char *origin, const char *fetch_site)
{
    const char *message;
    struct dp_http_access_headers headers = {.host = host, .origin = origin, .fetch_site = fetch_site};
    return dp_http_access_check(&headers, &message);
}

TEST(pages_of_other_sites_are_refused)
{
    static const char *const hosts[] = {"127.0.0.1:6060", "localhost:6060", "[::1]:6060"};
    dp_http_access_init("", true);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char own[64];
        snprintf(own, sizeof own, "http://%s", hosts[i]);
        assert_int_equal(check_page(hosts[i], own, NULL), 200);
        assert_int_equal(check_page(hosts[i], own, "same-origin"), 200);
        assert_int_equal(check_page(hosts[i], NULL, "same-origin"), 200);
        assert_int_equal(check_page(hosts[i], NULL, "none"), 200); /* typed, or a bookmark */
        assert_int_equal(check_page(hosts[i], NULL, "cross-site"), 403);
        assert_int_equal(check_page(hosts[i], NULL, "same-site"), 403); /* another port of this machine */
        assert_int_equal(check_page(hosts[i], own, "cross-site"), 403);
        assert_int_equal(check_page(hosts[i], NULL, "x"), 403);
        assert_int_equal(check_page(hosts[i], "http://evil.example", NULL), 403);
        assert_int_equal(check_page(hosts[i], "http://localhost:3000", NULL), 403);
        assert_int_equal(check_page(hosts[i], "null", NULL), 403);
    }
    assert_int_equal(check_page(NULL, "http://evil.example", NULL), 403);
    /* Behind a proxy that keeps the public name for itself, the browser's own judgement counts. */
    assert_int_equal(check_page("127.0.0.1:6060", "https://profiles.example", "same-origin"), 200);
}

TEST(listen_takes_literals_ranges_and_socket_files_only)
{
    struct dp_config_address a;
    assert_int_equal(dp_config_address_parse(&a, "127.0.0.1:6060"), 0);
    assert_true(a.local);
    assert_int_equal(a.first_port, 6060);
    assert_int_equal(a.last_port, 6060);
    assert_int_equal(dp_config_address_parse(&a, "localhost:6060-6070"), 0);
    assert_int_equal(a.last_port, 6070);
    assert_int_equal(dp_config_address_parse(&a, "[::1]:1"), 0);
    assert_true(a.local);
    assert_int_equal(dp_config_address_parse(&a, "*:80"), 0);
    assert_false(a.local);
    assert_int_equal(dp_config_address_parse(&a, "[::]:80"), 0);
    assert_false(a.local);
    assert_int_equal(dp_config_address_parse(&a, "unix:/run/x.sock"), 0);
    assert_true(a.local);
    static const char *const bad[] = {"",
                                      "6060",
                                      ":6060",
                                      "example.org:6060",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:0",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:2-1",
                                      "127.0.0.1:1-",
                                      "127.0.0.1:1x",
                                      "::1:80",
                                      "[::1]",
                                      "[]:1",
                                      "unix:",
                                      "1.2.3.4.5:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(dp_config_address_parse(&a, bad[i]) < 0);
}

UNIT(NULL, NULL)
