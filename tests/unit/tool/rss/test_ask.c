/* SPDX-License-Identifier: MIT */
/* Finds sockets of a process, here of the test itself, by the value of its key `listen`. */
#include "support/unit.h"

#include "tool/rss/ask.c"

/* Whether the listener got a connection. */
static bool is_connected(const char *listen, int listener)
{
    int fd = connect_endpoint(getpid(), listen);
    if (fd < 0)
        return false;
    int accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    close(accepted);
    close(fd);
    return true;
}

TEST(a_path_is_that_behind_unix)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char text[200];
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/deltaprof-ask-%d", (int)getpid());
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 8), 0);
    snprintf(text, sizeof text, "unix:%s", at.sun_path);
    assert_true(is_connected(text, listener));
    assert_int_equal(connect_endpoint(getppid(), text), -1); /* another process has no such socket */
    snprintf(text, sizeof text, "unix:%s.", at.sun_path);
    assert_int_equal(connect_endpoint(getpid(), text), -1);
    snprintf(text, sizeof text, "unix:/%0150d", 0);
    assert_int_equal(connect_endpoint(getpid(), text), -1);
    close(listener);
    unlink(at.sun_path);
}

TEST(a_port_may_be_one_of_a_range)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n_bytes = sizeof at;
    char text[64];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &n_bytes), 0);
    int port = ntohs(at.sin_port);
    static const struct {
        int low, high;
        bool is_it;
    } ranges[] = {{0, 0, true}, {-3, 0, true}, {0, 3, true}, {-3, 3, true}, {-3, -1, false}, {1, 3, false}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        snprintf(text, sizeof text, "127.0.0.1:%d-%d", port + ranges[i].low, port + ranges[i].high);
        assert_true(is_connected(text, listener) == ranges[i].is_it);
    }
    snprintf(text, sizeof text, "*:%d", port);
    assert_true(is_connected(text, listener));
    snprintf(text, sizeof text, "%d", port);
    assert_false(is_connected(text, listener));
    close(listener);
    snprintf(text, sizeof text, "127.0.0.1:%d", port);
    assert_int_equal(connect_endpoint(getpid(), text), -1);
}

TEST(a_token_is_the_first_line)
{
    char path[64], header[1200];
    assert_true(read_token("", header));
    assert_string_equal(header, "");
    snprintf(path, sizeof path, "/tmp/deltaprof-ask-token-%d", (int)getpid());
    assert_false(read_token(path, header));
    FILE *f = fopen(path, "w");
    fputs("s3cret\r\nmore\n", f);
    fclose(f);
    assert_true(read_token(path, header));
    assert_string_equal(header, "Authorization: Bearer s3cret\r\n");
    unlink(path);
}

UNIT(NULL, NULL)
