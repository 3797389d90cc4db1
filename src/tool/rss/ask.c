/* SPDX-License-Identifier: MIT */
/*
 * tool/rss/ask.c - asks a running process for a profile of now: through its endpoint (listen=), or by the signal that
 * asks for a tick (signal=). For `deltaprof waste`: what it shows, only the process itself can count.
 *
 * The endpoint of the same address may be another process's: of a family only one process has a port. So it is asked
 * only if the process itself has the listening socket. A signal is sent only if the process catches it.
 */
#include "config/config.h"
#include "tool/rss/rss.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof((struct dp_config *)0)->listen == DP_RSS_OUT && DP_RSS_OUT == DP_CONFIG_TEXT, "all texts fit");

enum { WAIT_MS = 2000, ANSWER_S = 20, STEP_MS = 20, LISTENS = 0x0A, ANSWER_BYTES_MAX = 256 << 20 };

/* ---- by the signal ---------------------------------------------------------------------------------------------- */

static bool catches(pid_t pid, int number)
{
    char line[256];
    unsigned long long caught = 0;
    FILE *status = dp_rss_process_open(pid, "status");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "SigCgt: %llx", &caught) == 1)
            break;
    if (status)
        fclose(status);
    return caught >> (number - 1) & 1;
}

static char *ask_by_signal(const struct dp_rss_process *p, int number, const char *known, const char *directory)
{
    if (!number || !catches(p->pid, number) || kill(p->pid, number))
        return NULL;
    for (int waited = 0; waited < WAIT_MS; waited += STEP_MS) {
        nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000}, NULL);
        char *newest = dp_rss_profile_find(p, directory, false);
        if (newest && (!known || strcmp(newest, known)))
            return newest;
        free(newest);
    }
    return NULL;
}

/* ---- through the endpoint --------------------------------------------------------------------------------------- */

/* Whether one of the process's threads, which may have tables of their own, has the socket. */
static bool has_socket(pid_t pid, unsigned long long inode)
{
    char path[64], wanted[48], link[64];
    bool found = false;
    snprintf(wanted, sizeof wanted, "socket:[%llu]", inode);
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path), *fds;
    for (struct dirent *thread; threads && !found && (thread = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/fd", (int)pid, thread->d_name);
        if (thread->d_name[0] == '.' || !(fds = opendir(path)))
            continue;
        for (struct dirent *fd; !found && (fd = readdir(fds));) {
            ssize_t n = readlinkat(dirfd(fds), fd->d_name, link, sizeof link - 1);
            found = n > 0 && (size_t)n == strlen(wanted) && !memcmp(link, wanted, (size_t)n);
        }
        closedir(fds);
    }
    if (threads)
        closedir(threads);
    return found;
}

static time_t answer_s; /* how long the process may take for an answer */

static int connected(int family, const void *address, socklen_t n_bytes)
{
    const struct timeval patience = {.tv_sec = answer_s};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!connect(fd, address, n_bytes))
        return fd;
    close(fd);
    return -1;
}

/* A connection to the socket of the process that listens on one of the ports; -1: it has none. */
static int connect_port(pid_t pid, unsigned low, unsigned high)
{
    char line[256];
    int fd = -1;
    FILE *table = dp_rss_process_open(pid, "net/tcp");
    while (table && fd < 0 && fgets(line, sizeof line, table)) {
        unsigned address, port, state;
        unsigned long long inode;
        if (sscanf(line, " %*d: %8x:%4x %*x:%*x %2x %*x:%*x %*x:%*x %*x %*d %*d %llu", &address, &port, &state,
                   &inode) != 4 ||
            state != LISTENS || port < low || port > high || !has_socket(pid, inode))
            continue;
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {address}};
        if (!address)
            to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fd = connected(AF_INET, &to, sizeof to);
    }
    if (table)
        fclose(table);
    return fd;
}

static int connect_path(pid_t pid, const char *path)
{
    char line[512];
    int fd = -1;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path)
        return -1;
    strcpy(to.sun_path, path);
    FILE *table = dp_rss_process_open(pid, "net/unix");
    while (table && fd < 0 && fgets(line, sizeof line, table)) {
        unsigned long long inode;
        char name[256];
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %llu %255[^\n]", &inode, name) == 2 && !strcmp(name, path) &&
            has_socket(pid, inode))
            fd = connected(AF_UNIX, &to, sizeof to);
    }
    if (table)
        fclose(table);
    return fd;
}

/* The process may have another network. */
static bool has_our_network(pid_t pid)
{
    char path[64];
    struct stat ours, its;
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
    return !stat("/proc/self/ns/net", &ours) && !stat(path, &its) && ours.st_ino == its.st_ino;
}

static int connect_endpoint(pid_t pid, const char *listen)
{
    unsigned low, high;
    const char *colon = strrchr(listen, ':');
    if (!strncmp(listen, "unix:", 5))
        return connect_path(pid, listen + 5);
    if (!colon || !has_our_network(pid))
        return -1;
    int n = sscanf(colon + 1, "%u-%u", &low, &high);
    return n < 1 ? -1 : connect_port(pid, low, n > 1 ? high : low);
}

/* The first line of the file, as a header; "": there is no token. False: it cannot be read. */
static bool read_token(const char *path, char header[1200])
{
    char token[1024] = "";
    header[0] = '\0';
    if (!*path)
        return true;
    FILE *file = fopen(path, "re");
    bool is_read = file && fgets(token, sizeof token, file);
    if (file)
        fclose(file);
    token[strcspn(token, "\r\n")] = '\0';
    snprintf(header, 1200, "Authorization: Bearer %s\r\n", token);
    return is_read;
}

/* Copies the answer's body into a file in memory. False: it is no profile. */
static bool read_answer(int from, int to)
{
    static char buffer[65536];
    size_t n = 0, n_all = 0;
    ssize_t got;
    char *body = NULL;
    while (!body && n + 1 < sizeof buffer && (got = read(from, buffer + n, sizeof buffer - 1 - n)) > 0) {
        n += (size_t)got;
        buffer[n] = '\0';
        body = strstr(buffer, "\r\n\r\n");
    }
    if (!body || strncmp(buffer, "HTTP/1.", 7) || strncmp(buffer + 8, " 200", 4))
        return false;
    body += 4;
    n -= (size_t)(body - buffer);
    for (got = 1; got > 0 && n_all < ANSWER_BYTES_MAX;) {
        if (write(to, body, n) != (ssize_t)n)
            return false;
        n_all += n; /* also of an answer that came as one piece */
        got = read(from, buffer, sizeof buffer);
        body = buffer;
        n = got > 0 ? (size_t)got : 0;
    }
    return !got && n_all;
}

/* The path of a profile in memory, malloc'ed; the file lives as long as this process. */
static char *ask_endpoint(const struct dp_rss_process *p, const struct dp_config *conf, const char *query)
{
    char token[1200], request[1400], *path = NULL;
    if (!*conf->listen || !read_token(conf->token, token))
        return NULL;
    int from = connect_endpoint(p->pid, conf->listen);
    if (from < 0)
        return NULL;
    int n = snprintf(request, sizeof request, "GET /debug/pprof/heap%s HTTP/1.0\r\nHost: localhost\r\n%s\r\n", query,
                     token);
    int to = memfd_create("profile", MFD_CLOEXEC);
    bool is_there = to >= 0 && send(from, request, (size_t)n, MSG_NOSIGNAL) == n && read_answer(from, to);
    if (is_there && asprintf(&path, "/proc/self/fd/%d", to) < 0)
        path = NULL;
    if (!path && to >= 0)
        close(to);
    close(from);
    return path;
}

char *dp_rss_profile_ask(const struct dp_rss_process *p, const char *known, const char *directory, const char *query,
                         long seconds)
{
    static struct dp_config conf;
    answer_s = ANSWER_S + seconds;
    if (*p->listen || p->signal) { /* a program may overwrite its environment with its title, as redis does */
        dp_config_init(&conf);
        memcpy(conf.listen, p->listen, sizeof conf.listen);
        memcpy(conf.token, p->token, sizeof conf.token);
        conf.signal = p->signal;
    } else if (!dp_rss_process_conf(p->pid, &conf)) {
        return NULL;
    }
    char *fresh = ask_endpoint(p, &conf, query);
    return fresh ? fresh : ask_by_signal(p, conf.signal, known, directory);
}
