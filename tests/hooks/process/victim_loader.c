/* SPDX-License-Identifier: MIT */
/*
 * victim_loader - a program that allocates while other threads are inside the dynamic loader or hold its lock.
 *
 *     callback N      N times: one thread waits for a mutex in a dl_iterate_phdr callback; the mutex's owner allocates
 *     churn SECONDS PLUGIN PLUGIN...
 *                     threads open and close libraries and iconv converters, others allocate, main forks; each ten
 *                     times at least
 *
 * It defines dl_iterate_phdr itself, in front of libc's, and ends the program if it is called from inside malloc or
 * free.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <iconv.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define KEEP     __asm__ volatile("" ::: "memory")

static __thread int in_allocator;

typedef int (*iterate_fn)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

__attribute__((visibility("default"))) int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *),
                                                           void *data)
{
    static iterate_fn real;
    if (in_allocator) {
        static const char line[] = "dl_iterate_phdr was called in malloc\n";
        (void)!write(1, line, sizeof line - 1);
        _exit(9);
    }
    if (!real)
        real = (iterate_fn)dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return real(callback, data);
}

static NOINLINE void *make(size_t n_bytes)
{
    in_allocator = 1;
    void *p = malloc(n_bytes);
    in_allocator = 0;
    return p;
}

static NOINLINE void drop(void *p)
{
    in_allocator = 1;
    free(p);
    in_allocator = 0;
}

/* A stack that rules can describe, and one that needs libunwind (its frames have a larger alignment). */
static NOINLINE void plain(int depth)
{
    if (depth == 0)
        drop(make(40));
    else
        plain(depth - 1);
    KEEP;
}

static NOINLINE void aligned(int depth)
{
    _Alignas(64) char room[64];
    char *more = alloca((size_t)depth * 16 + 1);
    __asm__ volatile("" ::"r"(room), "r"(more));
    if (depth == 0)
        drop(make(48));
    else
        aligned(depth - 1);
    KEEP;
}

static void allocate(int n)
{
    for (int i = 0; i < n; i++) {
        plain(i % 12);
        aligned(i % 7);
    }
}

/* ---- callback -----------------------------------------------------------------------------------------------------
 */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t inside, held, done;

static int wants_the_mutex(struct dl_phdr_info *info, size_t n_bytes, void *arg)
{
    sem_post(&inside);
    pthread_mutex_lock(&mutex);
    drop(make(56));
    pthread_mutex_unlock(&mutex);
    return 1;
}

static void *iterate(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        sem_wait(&held);
        dl_iterate_phdr(wants_the_mutex, NULL);
        sem_post(&done);
    }
    return NULL;
}

static int callback(int n)
{
    pthread_t thread;
    sem_init(&inside, 0, 0);
    sem_init(&held, 0, 0);
    sem_init(&done, 0, 0);
    pthread_create(&thread, NULL, iterate, &n);
    for (int i = 0; i < n; i++) {
        pthread_mutex_lock(&mutex);
        sem_post(&held);
        sem_wait(&inside); /* now the other thread holds the loader's lock and waits for the mutex */
        allocate(20);
        pthread_mutex_unlock(&mutex);
        sem_wait(&done);
    }
    pthread_join(thread, NULL);
    return 0;
}

/* ---- churn ---------------------------------------------------------------------------------------------------------
 */

static double deadline;
static char **plugins;
static int n_plugins;
static unsigned long n_opened, n_converted;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *opens(void *arg)
{
    uintptr_t first = (uintptr_t)arg;
    for (uintptr_t turn = first; turn < first + 10 || now() < deadline; turn++) {
        void *library = dlopen(plugins[turn % (unsigned)n_plugins], RTLD_NOW | RTLD_LOCAL);
        void *(*plugin_make)(size_t) = (void *(*)(size_t))dlsym(library, "plugin_make");
        for (int i = 0; i < 5 && plugin_make; i++)
            free(plugin_make(64));
        dlclose(library);
        __atomic_add_fetch(&n_opened, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *converts(void *arg)
{
    static const char *const names[] = {"EUC-JP", "KOI8-R", "SHIFT_JIS", "IBM850", "GBK"};
    for (unsigned turn = 0; turn < 10 || now() < deadline; turn++) {
        iconv_t converter = iconv_open("UTF-8", names[turn % 5]);
        if (converter != (iconv_t)-1) {
            char from[] = "abc", to[16], *in = from, *out = to;
            size_t n_in = 3, n_out = sizeof to;
            iconv(converter, &in, &n_in, &out, &n_out);
            iconv_close(converter);
            n_converted++;
        }
    }
    return NULL;
}

static void *allocates(void *arg)
{
    for (int turn = 0; turn < 10 || now() < deadline; turn++)
        allocate(10);
    return NULL;
}

static int churn(double seconds)
{
    pthread_t threads[5];
    deadline = now() + seconds;
    pthread_create(&threads[0], NULL, opens, (void *)0);
    pthread_create(&threads[1], NULL, opens, (void *)1);
    pthread_create(&threads[2], NULL, converts, NULL);
    pthread_create(&threads[3], NULL, allocates, NULL);
    pthread_create(&threads[4], NULL, allocates, NULL);
    unsigned long n_children = 0;
    while (n_children < 10 || now() < deadline) {
        pid_t pid = fork();
        if (pid == 0) {
            allocate(3);
            _exit(0);
        }
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
            return 3;
        n_children++;
        usleep(2000);
    }
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    fprintf(stderr, "%lu opened, %lu converted, %lu children\n", n_opened, n_converted, n_children);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "callback"))
        return callback(atoi(argv[2]));
    if (argc > 3 && !strcmp(argv[1], "churn")) {
        plugins = argv + 3;
        n_plugins = argc - 3;
        return churn(atof(argv[2]));
    }
    return 2;
}
