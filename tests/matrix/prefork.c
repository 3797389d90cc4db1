/* SPDX-License-Identifier: MIT */
/*
 * prefork - a server that forks its workers before connections come, and replaces each worker after some connections.
 * The workers share one listening socket. The clients, in another child, connect, ask, and close; a few close before
 * the answer.
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_WORKERS = 4, N_CLIENTS = 200, EACH = 20 };

static int listener;
static struct sockaddr_in address = {.sin_family = AF_INET};

/* A worker: answers EACH connections with their bytes in reverse order, then ends. */
static void serve(void)
{
    for (int i = 0; i < EACH; i++) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            _exit(1);
        char *question = malloc(4096), *answer = NULL;
        ssize_t n = read(fd, question, 4096);
        if (n > 0) {
            answer = malloc((size_t)n);
            for (ssize_t j = 0; j < n; j++)
                answer[j] = question[n - 1 - j];
            send(fd, answer, (size_t)n, MSG_NOSIGNAL);
        }
        free(answer);
        free(question);
        close(fd);
    }
    exit(0);
}

static void ask(void)
{
    int n_right = 0;
    for (int i = 0; i < N_CLIENTS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        char question[64], answer[64] = "";
        int n = snprintf(question, sizeof question, "question %d", i);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) || write(fd, question, (size_t)n) != n)
            _exit(2);
        if (i % 10) {
            ssize_t got = read(fd, answer, sizeof answer);
            n_right += got == n && answer[n - 1] == 'q';
        }
        close(fd);
    }
    printf("answers %d\n", n_right);
    exit(0);
}

int main(void)
{
    socklen_t n_address = sizeof address;
    int n_workers = 0, n_failed = 0, status;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&address, &n_address))
        return 3;
    for (; n_workers < N_WORKERS; n_workers++)
        if (fork() == 0)
            serve();
    pid_t clients = fork();
    if (clients == 0)
        ask();
    for (pid_t pid; (pid = wait(&status)) > 0 || errno == EINTR;) {
        if (pid < 0)
            continue;
        n_failed += status != 0;
        if (pid != clients && n_workers < N_CLIENTS / EACH) {
            n_workers++;
            if (fork() == 0)
                serve();
        }
    }
    printf("workers %d, failed %d\n", n_workers, n_failed);
    return 0;
}
