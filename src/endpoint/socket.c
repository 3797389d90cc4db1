/* SPDX-License-Identifier: MIT */
/*
 * endpoint/socket.c - opens the listening socket of the endpoint, and removes its socket file again.
 *
 * [FILE] is_there is stored with release after the file's identity; a thread that ends the process reads it with
 * acquire.
 */
#include "endpoint/socket.h"

#include "base/atomic.h"
#include "base/process.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The most that a dying reader may leave unread although it counts as delivered (without after=): so it is small. */
#define SEND_BUFFER_BYTES (32 << 10)

/* The socket file that this process bound. */
static struct {
    const char *path; /* of `listen` */
    dev_t device;
    ino_t inode;
    _Atomic bool is_there; /* [FILE] */
} socket_file;

/* Removes a socket file that refuses connections: its process has ended. A socket with a full queue is in use. */
static void forget_dead_socket(const struct dp_config_address *address)
{
    struct stat was;
    if (lstat(address->un.sun_path, &was) || !S_ISSOCK(was.st_mode))
        return;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return;
    if (connect(probe, &address->any, address->n_bytes) && errno == ECONNREFUSED)
        unlink(address->un.sun_path);
    close(probe);
}

static int bind_and_listen(int fd, const struct dp_config_address *address)
{
    bool is_file = address->any.sa_family == AF_UNIX;
    if (is_file && fchmod(fd, 0600)) /* before it listens */
        return -errno;
    if (bind(fd, &address->any, address->n_bytes) || (is_file && chmod(address->un.sun_path, 0600)) || listen(fd, 64))
        return -errno;
    return 0;
}

/* Opens a listening socket; or -errno. */
static int open_socket(const struct dp_config_address *address)
{
    int one = 1, buffer_bytes = SEND_BUFFER_BYTES; /* connections inherit it */
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    int err = bind_and_listen(fd, address);
    if (!err)
        return fd;
    close(fd);
    return err;
}

/*
 * Listens on the first free port. Two processes may bind the same port, and then one of them fails to listen. A bound
 * socket cannot be bound again, so each port is tried with a new socket.
 */
static int open_first(struct dp_config_address *address)
{
    if (address->any.sa_family == AF_UNIX) {
        forget_dead_socket(address);
        return open_socket(address);
    }
    int fd = -EADDRINUSE;
    for (unsigned port = address->first_port; fd == -EADDRINUSE && port <= address->last_port; port++) {
        dp_config_address_set_port(address, (uint16_t)port);
        fd = open_socket(address);
    }
    return fd;
}

static void note_file(const struct dp_config_address *address, const char *listen)
{
    struct stat made;
    socket_file.path = listen + strlen("unix:");
    if (address->any.sa_family != AF_UNIX || lstat(socket_file.path, &made))
        return;
    socket_file.device = made.st_dev;
    socket_file.inode = made.st_ino;
    dp_store_release(&socket_file.is_there, true); /* [FILE] */
}

/* Another process may have replaced this process's file by a new one. */
void dp_http_socket_remove_file(void)
{
    struct stat now;
    int saved = errno;
    if (dp_load_acquire(&socket_file.is_there) && dp_process_is_noted() && /* [FILE] */
        lstat(socket_file.path, &now) == 0 && now.st_dev == socket_file.device && now.st_ino == socket_file.inode)
        unlink(socket_file.path);
    dp_store_relaxed(&socket_file.is_there, false);
    errno = saved;
}

int dp_http_socket_open(struct dp_config_address *address, const char *listen)
{
    int fd = open_first(address);
    if (fd >= 0)
        note_file(address, listen);
    return fd;
}

DP_IN_CHILD void dp_http_socket_fork_child(void)
{
    dp_store_relaxed(&socket_file.is_there, false);
}
