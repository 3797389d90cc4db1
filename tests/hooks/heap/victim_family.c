/* SPDX-License-Identifier: MIT */
/*
 * victim_family - calls the malloc family with all special cases, and prints one line for each: result and errno. No
 * address is printed, so that the output with and without the profiler is the same.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void free_sized(void *ptr, size_t n) __attribute__((weak));
extern void free_aligned_sized(void *ptr, size_t alignment, size_t n) __attribute__((weak));

/* volatile: the compiler must not know the values. */
static size_t volatile big = SIZE_MAX, half = SIZE_MAX / 2, odd = 3, zero = 0, wide = (size_t)1 << 33,
                       all = (size_t)1 << 47; /* the whole address space: no overflow of a size, but never there */

static void say(const char *what, void *ptr, int error, size_t alignment)
{
    char line[200];
    int n = snprintf(line, sizeof line, "%-36s %s aligned %d errno %d\n", what, ptr ? "block" : "NULL",
                     ptr ? (uintptr_t)ptr % alignment == 0 : 1, error);
    if (write(1, line, (size_t)n) != n)
        _exit(9);
}

#define SAY(alignment, call)                           \
    do {                                               \
        errno = 77;                                    \
        void *ptr_ = call;                             \
        int error_ = errno;                            \
        say(#call, ptr_, error_, alignment);           \
        errno = 78;                                    \
        free(ptr_);                                    \
        if (errno != 78)                               \
            say("free changed errno", NULL, errno, 1); \
    } while (0)

#define SAY_POSIX(alignment, n)                                                        \
    do {                                                                               \
        void *ptr_ = (void *)&zero;                                                    \
        errno = 77;                                                                    \
        int result_ = posix_memalign(&ptr_, alignment, n);                             \
        int error_ = errno;                                                            \
        printf("posix_memalign(%s, %s) = %d, pointer %s\n", #alignment, #n, result_,   \
               ptr_ == (void *)&zero ? "untouched"                                     \
               : ptr_                ? "set"                                           \
                                     : "NULL");                                                       \
        fflush(stdout);                                                                \
        say("posix_memalign", result_ ? NULL : ptr_, error_, result_ ? 1 : alignment); \
        if (!result_)                                                                  \
            free(ptr_);                                                                \
    } while (0)

static void *filled_by_main;

static void *filled(size_t n)
{
    char *ptr = malloc(n);
    memset(ptr, 0x5a, n);
    return ptr;
}

static void kept(const char *what, char *ptr, size_t n)
{
    size_t same = 0;
    while (same < n && ptr[same] == 0x5a)
        same++;
    printf("%s: %s of %zu bytes kept\n", what, same == n ? "all" : "not all", n);
    fflush(stdout);
}

/* All calls fail. Their sizes are large enough to be sampled, so a sample would show. */
__attribute__((noinline)) static void fails(void)
{
    void *ptr = (void *)&zero, *kept = filled_by_main;
    int n_blocks = (malloc(half) != NULL) + (calloc(wide, wide) != NULL) + (realloc(kept, half) != NULL) +
                   (aligned_alloc(64, half) != NULL) + (memalign(64, half) != NULL) + (valloc(half) != NULL) +
                   (posix_memalign(&ptr, odd, 100) == 0) + (posix_memalign(&ptr, 64, half) == 0);
    n_blocks += (malloc(all) != NULL) + (calloc(all / 8, 8) != NULL) + (realloc(kept, all) != NULL) +
                (memalign(64, all) != NULL) + (posix_memalign(&ptr, 64, all) == 0);
    printf("blocks of calls that fail: %d\n", n_blocks);
}

/* Each call gives a block, and none is left: realloc to 0 bytes frees. */
__attribute__((noinline)) static void to_nothing(void)
{
    for (int i = 0; i < 10; i++) {
        void *volatile ptr = malloc(100);
        if (realloc(ptr, zero))
            printf("realloc to nothing gave a block\n");
    }
}

int main(void)
{
    SAY(16, malloc(zero));
    SAY(16, malloc(1));
    SAY(16, malloc(24));
    SAY(16, malloc(1000000));
    SAY(16, malloc(big));
    SAY(16, malloc(half));
    SAY(16, malloc(half + 1));
    SAY(16, malloc(big - 4096));
    SAY(16, calloc(zero, 8));
    SAY(16, calloc(8, zero));
    SAY(16, calloc(7, 13));
    SAY(16, calloc(big, 2));
    SAY(16, calloc(half, odd));
    SAY(16, calloc(wide, wide));
    SAY(16, calloc(1, big));
    SAY(16, realloc(NULL, zero));
    SAY(16, realloc(NULL, 100));
    SAY(16, realloc(NULL, big));
    SAY(16, realloc(malloc(100), zero));
    SAY(16, realloc(malloc(100), 10));
    SAY(16, realloc(malloc(100), 100000));
    SAY(16, realloc(malloc(1000000), 3000000));
    SAY(16, reallocarray(NULL, 3, 5));
    SAY(16, reallocarray(NULL, big, 5));
    SAY(16, reallocarray(NULL, zero, 5));
    SAY(16, reallocarray(malloc(10), 100, 7));
    SAY(16, reallocarray(malloc(10), zero, 7));
    SAY(64, aligned_alloc(64, 100));
    SAY(64, aligned_alloc(64, zero));
    SAY(1, aligned_alloc(48, 96));
    SAY(1, aligned_alloc(zero, 96));
    SAY(64, aligned_alloc(64, big));
    SAY(4096, memalign(4096, 10));
    SAY(1, memalign(big, 10));
    SAY(1, memalign(3, 10));
    SAY(8192, memalign(8192, zero));
    SAY(4096, valloc(10));
    SAY(4096, valloc(zero));
    SAY(1, valloc(big));
    SAY(4096, pvalloc(10));
    SAY(4096, pvalloc(zero));
    SAY(1, pvalloc(big));
    SAY_POSIX(64, 100);
    SAY_POSIX(4, 100);
    SAY_POSIX(24, 100);
    SAY_POSIX(zero, 100);
    SAY_POSIX(64, zero);
    SAY_POSIX(64, big);

    /* A realloc that fails leaves the old block as it was. */
    char *old = filled(500), *volatile same = old; /* the compiler assumes that realloc freed old */
    errno = 0;
    void *failed = realloc(old, big);
    printf("realloc of a block to SIZE_MAX: %s, errno %d\n", failed ? "a block" : "NULL", errno);
    kept("after the failed realloc", same, 500);
    errno = 0;
    old = same;
    failed = reallocarray(old, big, 4);
    printf("reallocarray of a block that overflows: %s, errno %d\n", failed ? "a block" : "NULL", errno);
    old = same;
    kept("after the failed reallocarray", old, 500);
    old = realloc(old, 5000);
    kept("grown", old, 500);
    old = realloc(old, 50);
    kept("shrunk", old, 50);
    free(old);

    free(NULL);
    if (free_sized)
        free_sized(malloc(10), 10);
    if (free_aligned_sized)
        free_aligned_sized(aligned_alloc(64, 128), 64, 128);

    filled_by_main = malloc(10);
    fails();
    to_nothing();

    /* errno of calls that succeed. */
    errno = 123;
    for (int i = 0; i < 100000; i++)
        free(malloc((size_t)i));
    printf("errno after 100000 pairs: %d\n", errno);
    return 0;
}
