/* SPDX-License-Identifier: MIT */
/*
 * Calls 18 blocking functions by turns, each with a wait of microseconds, for so many seconds on so many threads, and
 * counts the calls that end early: with EINTR, or before their time. With `control` a timer of its own sends
 * SIGALRM every 4 ms: then calls must end early, or this program could not see it. With the name of a function it calls
 * only that one.
 *
 *     victim_eintr SECONDS THREADS [control|NAME]
 *
 * Prints NAME CALLS EINTR EARLY for each function.
 */
#include <errno.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* What a thread waits on: nothing ever comes, except where said. The sockets have an end in another thread. */
struct things {
    int pipe[2], sockets[2], listening, timer, epoll, semaphores, queue;
    struct sockaddr_un address; /* of the listening socket */
    socklen_t n_address;
    pthread_t other_end;
    mqd_t messages;
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t word;
};

static struct timespec after(int64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    ns += t.tv_nsec;
    return (struct timespec){t.tv_sec + ns / 1000000000, ns % 1000000000};
}

static struct timespec span(int64_t ns)
{
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

/* Each waits for ns; returns 0, or the errno that it ended with. */
static int result(long value)
{
    return value < 0 ? errno : 0;
}

static int do_poll(struct things *t, int64_t ns)
{
    struct pollfd p = {t->pipe[0], POLLIN, 0};
    return result(poll(&p, 1, (int)(ns / 1000000)));
}

static int do_ppoll(struct things *t, int64_t ns)
{
    struct pollfd p = {t->pipe[0], POLLIN, 0};
    struct timespec s = span(ns);
    sigset_t none;
    sigemptyset(&none);
    return result(ppoll(&p, 1, &s, &none));
}

static int do_select(struct things *t, int64_t ns)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(t->pipe[0], &set);
    struct timeval s = {0, ns / 1000};
    return result(select(t->pipe[0] + 1, &set, NULL, NULL, &s));
}

static int do_pselect(struct things *t, int64_t ns)
{
    struct timespec s = span(ns);
    sigset_t none;
    (void)t;
    sigemptyset(&none);
    return result(pselect(0, NULL, NULL, NULL, &s, &none));
}

static int do_epoll_wait(struct things *t, int64_t ns)
{
    struct epoll_event e;
    return result(epoll_wait(t->epoll, &e, 1, (int)(ns / 1000000)));
}

static int do_epoll_pwait(struct things *t, int64_t ns)
{
    struct epoll_event e;
    sigset_t none;
    sigemptyset(&none);
    return result(epoll_pwait(t->epoll, &e, 1, (int)(ns / 1000000), &none));
}

static int do_nanosleep(struct things *t, int64_t ns)
{
    struct timespec s = span(ns);
    (void)t;
    return result(nanosleep(&s, NULL));
}

static int do_clock_nanosleep(struct things *t, int64_t ns)
{
    struct timespec s = span(ns);
    (void)t;
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &s, NULL);
}

static int do_futex(struct things *t, int64_t ns)
{
    struct timespec s = span(ns);
    int err = result(syscall(SYS_futex, &t->word, FUTEX_WAIT_PRIVATE, 0, &s, NULL, 0));
    return err == ETIMEDOUT ? 0 : err;
}

static int do_sem_timedwait(struct things *t, int64_t ns)
{
    struct timespec s = after(ns);
    int err = result(sem_timedwait(&t->semaphore, &s));
    return err == ETIMEDOUT ? 0 : err;
}

static int do_cond_timedwait(struct things *t, int64_t ns)
{
    struct timespec s = after(ns);
    pthread_mutex_lock(&t->mutex);
    int err = pthread_cond_timedwait(&t->cond, &t->mutex, &s);
    pthread_mutex_unlock(&t->mutex);
    return err == ETIMEDOUT ? 0 : err ? err : EINTR; /* glibc hides EINTR: an early end is its sign */
}

/*
 * The other end of each thread's sockets: sends a byte back for each one; for 'c' it connects to the listening socket
 * instead. These sockets have a timeout, so a system call that waits in them is never restarted.
 */
static void *answer(void *things)
{
    struct things *t = things;
    char c;
    while (read(t->sockets[1], &c, 1) == 1) {
        int fd = c == 'c' ? socket(AF_UNIX, SOCK_STREAM, 0) : -1;
        if (c == 'c' ? connect(fd, (struct sockaddr *)&t->address, t->n_address) : write(t->sockets[1], &c, 1) != 1)
            break;
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

/* A call that ended early is repeated: the answer to it is on its way, and must not meet the next call. */
static int do_recv(struct things *t, int64_t ns)
{
    char c = 'r';
    int err = 0;
    (void)ns;
    if (write(t->sockets[0], &c, 1) != 1)
        return errno;
    while (recv(t->sockets[0], &c, 1, 0) < 0) {
        err = errno;
        if (err != EINTR)
            break;
    }
    return err;
}

static int do_accept(struct things *t, int64_t ns)
{
    char c = 'c';
    int err = 0, fd;
    (void)ns;
    if (write(t->sockets[0], &c, 1) != 1)
        return errno;
    while ((fd = accept(t->listening, NULL, NULL)) < 0) {
        err = errno;
        if (err != EINTR)
            break;
    }
    if (fd >= 0)
        close(fd);
    return err;
}

static int do_read(struct things *t, int64_t ns)
{
    uint64_t n;
    struct itimerspec s = {.it_value = span(ns)};
    timerfd_settime(t->timer, 0, &s, NULL);
    return result(read(t->timer, &n, sizeof n));
}

static int do_sigtimedwait(struct things *t, int64_t ns)
{
    struct timespec s = span(ns);
    sigset_t one;
    (void)t;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    int err = result(sigtimedwait(&one, NULL, &s));
    return err == EAGAIN ? 0 : err;
}

static int do_semtimedop(struct things *t, int64_t ns)
{
    struct timespec s = span(ns);
    struct sembuf op = {0, -1, 0};
    int err = result(semtimedop(t->semaphores, &op, 1, &s));
    return err == EAGAIN ? 0 : err;
}

static int do_mq_timedreceive(struct things *t, int64_t ns)
{
    char message[64];
    struct timespec s = after(ns);
    int err = result(mq_timedreceive(t->messages, message, sizeof message, NULL, &s));
    return err == ETIMEDOUT ? 0 : err;
}

/* No timeout: a message is there. It ends at once, but is never restarted if it waits. */
static int do_msgrcv(struct things *t, int64_t ns)
{
    struct {
        long type;
        char c;
    } m = {1, 0};
    (void)ns;
    if (msgsnd(t->queue, &m, 1, 0))
        return errno;
    return result(msgrcv(t->queue, &m, 1, 0, 0));
}

static const struct {
    const char *name;
    int (*call)(struct things *t, int64_t ns);
    char tells_time; /* it must not end before ns */
    char in_ms;      /* its timeout is in milliseconds, or in ticks */
} calls[] = {{"poll", do_poll, 1, 1},
             {"ppoll", do_ppoll, 1, 0},
             {"select", do_select, 1, 0},
             {"pselect", do_pselect, 1, 0},
             {"epoll_wait", do_epoll_wait, 1, 1},
             {"epoll_pwait", do_epoll_pwait, 1, 1},
             {"nanosleep", do_nanosleep, 1, 0},
             {"clock_nanosleep", do_clock_nanosleep, 1, 0},
             {"futex", do_futex, 1, 0},
             {"sem_timedwait", do_sem_timedwait, 0, 0},
             {"cond_timedwait", do_cond_timedwait, 0, 0},
             {"recv", do_recv, 0, 0},
             {"accept", do_accept, 0, 0},
             {"read", do_read, 0, 0},
             {"sigtimedwait", do_sigtimedwait, 1, 0},
             {"semtimedop", do_semtimedop, 0, 0},
             {"mq_timedreceive", do_mq_timedreceive, 0, 0},
             {"msgrcv", do_msgrcv, 0, 0}};
enum { N_CALLS = sizeof calls / sizeof *calls };

static _Atomic long n_calls[N_CALLS], n_eintr[N_CALLS], n_early[N_CALLS];
static int64_t end_ns;
static const char *only = ""; /* the function to call; "": each */

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void set_up(struct things *t, unsigned number)
{
    char name[32];
    struct mq_attr attr = {.mq_maxmsg = 2, .mq_msgsize = 64};
    struct epoll_event e = {.events = EPOLLIN};
    snprintf(name, sizeof name, "/victim_eintr.%d.%u", (int)getpid(), number);
    memset(t, 0, sizeof *t);
    if (pipe(t->pipe) || socketpair(AF_UNIX, SOCK_STREAM, 0, t->sockets))
        fail("pipe");
    t->listening = socket(AF_UNIX, SOCK_STREAM, 0);
    sa_family_t family = AF_UNIX; /* binds to a name that the kernel chooses */
    if (bind(t->listening, (struct sockaddr *)&family, sizeof family) || listen(t->listening, 4))
        fail("listen");
    struct timeval minute = {60, 0};
    t->n_address = sizeof t->address;
    if (getsockname(t->listening, (struct sockaddr *)&t->address, &t->n_address) ||
        setsockopt(t->listening, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute) ||
        setsockopt(t->sockets[0], SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute) ||
        pthread_create(&t->other_end, NULL, answer, t))
        fail("other end");
    t->timer = timerfd_create(CLOCK_MONOTONIC, 0);
    t->epoll = epoll_create1(0);
    if (t->timer < 0 || epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->pipe[0], &e))
        fail("epoll");
    t->semaphores = semget(IPC_PRIVATE, 1, 0600);
    t->queue = msgget(IPC_PRIVATE, 0600);
    t->messages = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
    if (t->semaphores < 0 || t->queue < 0 || t->messages == (mqd_t)-1)
        fail("queues");
    mq_unlink(name);
    sem_init(&t->semaphore, 0, 0);
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->cond, NULL);
}

static void tear_down(struct things *t)
{
    close(t->sockets[0]);
    pthread_join(t->other_end, NULL);
    semctl(t->semaphores, 0, IPC_RMID);
    msgctl(t->queue, IPC_RMID, NULL);
}

static int is_wanted(int i)
{
    return !*only || !strcmp(only, calls[i].name);
}

static void *run(void *number)
{
    struct things t;
    uint64_t random = 88172645463325252u + (uintptr_t)number * 7919;
    prctl(PR_SET_TIMERSLACK, 1);
    set_up(&t, (unsigned)(uintptr_t)number);
    while (now_ns() < end_ns)
        for (int i = 0; i < N_CALLS; i++)
            for (int turn = 0; turn < (!is_wanted(i) ? 0 : calls[i].in_ms ? 2 : 200); turn++) {
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                int64_t ns = calls[i].in_ms ? turn * 1000000 : 1000 + (int64_t)(random % 40000);
                int64_t begin_ns = now_ns();
                int err = calls[i].call(&t, ns);
                int early = calls[i].tells_time && !err && now_ns() - begin_ns < ns;
                n_calls[i]++;
                n_eintr[i] += err == EINTR;
                n_early[i] += early;
                if (err && err != EINTR)
                    fail(calls[i].name);
            }
    tear_down(&t);
    return NULL;
}

static void on_alarm(int sig)
{
    (void)sig;
}

int main(int argc, char **argv)
{
    int n_threads = atoi(argv[2]);
    pthread_t threads[256];
    end_ns = now_ns() + atoi(argv[1]) * INT64_C(1000000000);
    int is_control = argc > 3 && !strcmp(argv[3], "control");
    if (argc > 3 && !is_control)
        only = argv[3];
    if (is_control) {
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        struct itimerval each = {{0, 4000}, {0, 4000}};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &each, NULL);
    }
    for (int i = 0; i < n_threads; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i))
            fail("pthread_create");
    if (is_control) { /* the alarms go to the others */
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
    }
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N_CALLS; i++)
        printf("%s %ld %ld %ld\n", calls[i].name, (long)n_calls[i], (long)n_eintr[i], (long)n_early[i]);
    return 0;
}
