/* SPDX-License-Identifier: MIT */
/*
 * A program with an endpoint, which clients ask while it runs. It counts its own allocations.
 *
 *     threads     eight threads allocate in grow_0 .. grow_7, keep some and free the rest, until a line comes on stdin;
 *                 then prints `FUNCTION objects bytes kept_objects kept_bytes` a thread, and waits for the end of stdin
 *     tree DEPTH  one block at each node of a binary tree of calls: 2^(DEPTH+1)-1 stacks; then as `idle`
 *     idle        allocates a little every 10 ms until stdin ends
 *     locks       its threads wait for a mutex, a rwlock, a semaphore and a condition until a line comes on stdin; it
 *                 prints `rested` when no thread waits any more, and waits for the end of stdin
 *     sets        as `idle`, but gives each line of stdin to deltaprof_set, and prints what that returned
 *     daemon FILE daemon(3), writes its pid to FILE, then allocates a little every 10 ms until it is killed
 *     leaves      as `idle`, in a second thread; main leaves by pthread_exit
 *     closes      closes every descriptor above 2 again and again, and opens files in their place; at the end of stdin
 *                 it prints how many of these files were closed or replaced meanwhile
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../support/compat.h"

#define THREADS 8
#define KEPT    512

static atomic_int over;
static struct book {
    long objects, bytes, kept_objects, kept_bytes;
} books[THREADS];

static void one(struct book *book, void *kept[KEPT], size_t sizes[KEPT], unsigned *seed, void *p, size_t n)
{
    unsigned at = (unsigned)rand_r(seed) % KEPT;
    if (kept[at]) {
        book->kept_objects--;
        book->kept_bytes -= (long)sizes[at];
    }
    free(kept[at]);
    kept[at] = p;
    sizes[at] = n;
    book->objects++;
    book->bytes += (long)n;
    book->kept_objects++;
    book->kept_bytes += (long)n;
}

#define GROW(i)                                        \
    __attribute__((noinline)) void *grow_##i(size_t n) \
    {                                                  \
        void *p = malloc(n);                           \
        __asm__ volatile("" : "+r"(p));                \
        return p;                                      \
    }
/* clang-format off */
GROW(0)
GROW(1)
GROW(2)
GROW(3)
GROW(4)
GROW(5)
GROW(6)
GROW(7)

static void *(*const grows[THREADS])(size_t) = {grow_0, grow_1, grow_2, grow_3, grow_4, grow_5, grow_6, grow_7};

static void *work(void *arg)
{
    int i = (int)(long)arg;
    static void *kept[THREADS][KEPT];
    static size_t sizes[THREADS][KEPT];
    unsigned seed = (unsigned)i + 1;
    while (!atomic_load(&over)) {
        for (int k = 0; k < 50; k++) {
            size_t n = 1 + (size_t)rand_r(&seed) % 2000;
            one(&books[i], kept[i], sizes[i], &seed, grows[i](n), n);
        }
        usleep(500);
    }
    return NULL;
}

static void wait_for_line(void)
{
    char line[64];
    if (!read(0, line, sizeof line))
        return;
}

static void threads(void)
{
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    wait_for_line();
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; i++)
        printf("grow_%d %ld %ld %ld %ld\n", i, books[i].objects, books[i].bytes, books[i].kept_objects,
               books[i].kept_bytes);
    fflush(stdout);
    wait_for_line();
}

static void *nodes;

__attribute__((noinline)) static void node(void)
{
    void **p = malloc(40);
    *p = nodes;
    nodes = p;
}

static void left(int depth);
__attribute__((noinline)) static void right(int depth)
{
    node();
    if (depth) {
        left(depth - 1);
        right(depth - 1);
    }
    __asm__ volatile("");
}
__attribute__((noinline)) static void left(int depth)
{
    node();
    if (depth) {
        right(depth - 1);
        left(depth - 1);
    }
    __asm__ volatile("");
}

static int ended(int ms)
{
    struct pollfd in = {0, POLLIN, 0};
    char c;
    return poll(&in, 1, ms) == 1 && read(0, &c, 1) <= 0;
}

__attribute__((noinline)) static void little(void)
{
    static void *last;
    free(last);
    last = malloc(3000);
}

static void idle(void)
{
    printf("ready\n");
    fflush(stdout);
    while (!ended(10))
        little();
}

static void *idle_apart(void *unused)
{
    struct stat self;
    do { /* until main is gone: then its descriptors are */
        usleep(1000);
    } while (stat("/proc/self/exe", &self) == 0);
    idle();
    return unused;
}

static void leave(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, idle_apart, NULL);
    pthread_exit(NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;

static void *wait_for_all(void *unused)
{
    while (!atomic_load(&over)) {
        pthread_mutex_lock(&mutex);
        usleep(100);
        pthread_mutex_unlock(&mutex);
        pthread_rwlock_wrlock(&rwlock);
        usleep(100);
        pthread_rwlock_unlock(&rwlock);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec = (until.tv_nsec + 1000000) % 1000000000;
        sem_timedwait(&sem, &until);
        pthread_mutex_lock(&mutex);
        pthread_cond_timedwait(&cond, &mutex, &until);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void locks(void)
{
    pthread_t t[4];
    sem_init(&sem, 0, 0);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, wait_for_all, NULL);
    wait_for_line();
    atomic_store(&over, 1);
    while (usleep(10000) == 0 && sem_post(&sem) == 0 && pthread_tryjoin_np(t[0], NULL))
        ;
    for (int i = 1; i < 4; i++)
        pthread_join(t[i], NULL);
    printf("rested\n");
    fflush(stdout);
    wait_for_line();
}

__attribute__((weak)) int deltaprof_set(const char *conf);

static void sets(void)
{
    char line[256];
    for (int i = 0; i < 100; i++)
        little();
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        printf("%d\n", deltaprof_set ? deltaprof_set(line) : -1);
        fflush(stdout);
    }
}

static void daemonise(const char *file)
{
    if (daemon(1, 1))
        exit(3);
    FILE *f = fopen(file, "w");
    fprintf(f, "%d\n", (int)getpid());
    fclose(f);
    for (;;) {
        little();
        usleep(10000);
    }
}

static void closes(void)
{
    struct stat own[16], now;
    int wrong = 0;
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; !ended(50); i++) {
        little();
        if (i % 10)
            continue;
        closefrom(3);
        for (int fd = 3; fd < 19; fd++) {
            if (open("/dev", O_TMPFILE | O_RDWR, 0600) != fd && open("/tmp", O_TMPFILE | O_RDWR, 0600) != fd)
                wrong++;
            fstat(fd, &own[fd - 3]);
        }
        usleep(200000);
        for (int fd = 3; fd < 19; fd++)
            if (fstat(fd, &now) || now.st_ino != own[fd - 3].st_ino || now.st_dev != own[fd - 3].st_dev || now.st_size)
                wrong++;
    }
    printf("wrong %d\n", wrong);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "threads"))
        threads();
    else if (!strcmp(mode, "tree") && argc > 2)
        right(atoi(argv[2])), idle();
    else if (!strcmp(mode, "idle"))
        idle();
    else if (!strcmp(mode, "locks"))
        locks();
    else if (!strcmp(mode, "sets"))
        sets();
    else if (!strcmp(mode, "daemon") && argc > 2)
        daemonise(argv[2]);
    else if (!strcmp(mode, "leaves"))
        leave();
    else if (!strcmp(mode, "closes"))
        closes();
    else
        return 2;
    return 0;
}
