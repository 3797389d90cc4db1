// SPDX-License-Identifier: MIT
// victim_maps.c - maps, cuts, moves and unmaps memory. Prints for each function what its profile must have:
// "FUNCTION allocations bytes in-use-objects in-use-bytes HEAP". With an argument: threads and a signal handler map and
// unmap memory at the same time.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define P        ((int)sysconf(_SC_PAGESIZE))
#define CHECK(x) ((x) ? (void)0 : (fprintf(stderr, "%s: line %d, errno %d\n", #x, __LINE__, errno), exit(1)))

__attribute__((noinline, noclone)) static char *map(size_t n, int protection, int flags, void *at)
{
    return mmap(at, n, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

#define RW (PROT_READ | PROT_WRITE)
#define MAPPER(name)                                                                                    \
    __attribute__((noinline, noclone)) static char *name(size_t n, int protection, int flags, void *at) \
    {                                                                                                   \
        char *p = mmap(at, n, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);                  \
        CHECK(p != MAP_FAILED);                                                                         \
        return p;                                                                                       \
    }
MAPPER(keeps)
MAPPER(cuts)
MAPPER(is_replaced)
MAPPER(replaces)
MAPPER(reserves)
MAPPER(is_moved)

__attribute__((noinline, noclone)) static char *moves(char *old, size_t n_old, size_t n)
{
    char *p = mremap(old, n_old, n, MREMAP_MAYMOVE);
    CHECK(p != MAP_FAILED);
    return p;
}

__attribute__((noinline, noclone)) static void commits(char *p, size_t n)
{
    CHECK(!mprotect(p, n, RW));
}

__attribute__((noinline, noclone)) static char *maps_a_file(size_t n)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    char *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(fd >= 0 && p != MAP_FAILED);
    close(fd);
    return p;
}

__attribute__((noinline, noclone)) static void breaks(intptr_t n)
{
    CHECK(sbrk(n) != (void *)-1);
}

static void *race(void *arg)
{
    for (int i = 0; i < 3000; i++) {
        char *p = map((1 + i % 7) * P, RW, 0, NULL);
        CHECK(p != MAP_FAILED);
        *p = 1;
        CHECK(!munmap(p, (1 + i % 7) * P));
    }
    return arg;
}

static void on_alarm(int sig)
{
    char *p = map(P, RW, 0, NULL);
    CHECK(sig && p != MAP_FAILED && !munmap(p, P));
}

static int races(void)
{
    pthread_t threads[4];
    signal(SIGALRM, on_alarm);
    ualarm(200, 200);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, race, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ualarm(0, 0);
    char *kept = keeps(5 * P, RW, 0, NULL);
    printf("keeps 1 %d 1 %d mmap\n", 5 * P, kept ? 5 * P : 0);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return races();
    char *kept = keeps(10 * P - 7, RW, 0, NULL); // whole pages count
    printf("keeps 1 %d 1 %d mmap\n", 10 * P, 10 * P);

    char *cut = cuts(20 * P, RW, 0, NULL); // unmapped: its middle, its beginning, then its end
    CHECK(!munmap(cut + 8 * P, 4 * P) && !munmap(cut, 2 * P));
    CHECK(!munmap(cut + 12 * P, 8 * P));
    printf("cuts 1 %d 1 %d mmap\n", 20 * P, 6 * P);

    char *old = is_replaced(16 * P, RW, 0, NULL);
    replaces(4 * P, RW, MAP_FIXED, old + 4 * P);
    printf("is_replaced 1 %d 1 %d mmap\nreplaces 1 %d 1 %d mmap\n", 16 * P, 12 * P, 4 * P, 4 * P);

    char *reserved = reserves(1000 * P, PROT_NONE, MAP_NORESERVE, NULL);
    commits(reserved + 100 * P, 50 * P);
    commits(reserved + 140 * P, 20 * P); // ten of these pages were committed before
    CHECK(!munmap(reserved + 150 * P, 850 * P));
    printf("reserves 0 0 0 0 mmap\ncommits 2 %d 1 %d mmap\n", 60 * P, 50 * P);

    char *moved = moves(is_moved(3 * P, RW, 0, NULL), 3 * P, 30 * P);
    printf("is_moved 1 %d 0 0 mmap\nmoves 1 %d 1 %d mmap\n", 3 * P, 30 * P, 30 * P);

    char *file = maps_a_file(2 * P);
    printf("maps_a_file 1 %d 1 %d mmap-file\n", 2 * P, 2 * P);

    errno = 0;
    CHECK(map(P, RW, MAP_FIXED, (void *)1) == MAP_FAILED && errno == EINVAL);
    CHECK(munmap(kept + 1, P) == -1 && errno == EINVAL);
    CHECK(mremap(kept, 10 * P, (size_t)1 << 46, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
    CHECK(mremap(kept, 4 * P, 4 * P, MREMAP_MAYMOVE | MREMAP_FIXED, kept + 2 * P) == MAP_FAILED && errno == EINVAL);
    CHECK(mmap(kept, P, RW, MAP_PRIVATE | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EBADF);
    CHECK(mremap((void *)(uintptr_t)P, P, 2 * P, 0) == MAP_FAILED && errno == EFAULT);

    char *end = sbrk(0);
    breaks(8 * P);
    breaks(-3 * P);
    CHECK((char *)sbrk(0) == end + 5 * P);
    fflush(stdout);
    free(malloc(100 << 20)); // a mapping that malloc makes does not count here
    pid_t child = fork();
    if (!child) // unmaps a mapping of its parent, and makes one
        _exit(munmap(kept, 10 * P) || !keeps(2 * P, RW, 0, NULL));
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return !file || !moved || !old;
}
