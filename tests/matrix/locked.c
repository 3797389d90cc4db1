/* SPDX-License-Identifier: MIT */
/*
 * locked.c - an allocator, to be preloaded, that holds pthread mutexes while it works, as some do: an outer one for all
 * calls, an inner one for free lists, for which a thread of the allocator contends.
 *
 * Blocks are powers of two, from mapped chunks that are never unmapped; the size is stored before the block.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
enum { N_CLASSES = 40, HEAD = 16, CHUNK = 1 << 20 };

struct block {
    struct block *next;
};

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static struct block *lists[N_CLASSES];
static char *chunk, *chunk_end;

static unsigned class_of(size_t n)
{
    return n <= 32 ? 5 : 64 - (unsigned)__builtin_clzl(n - 1);
}

static void *map(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Blocks of a class lie at multiples of 16. The header before a block has its class and the distance to its start. */
static char *carve(unsigned class)
{
    size_t n = ((size_t)1 << class) + HEAD;
    if (n > CHUNK / 2)
        return map(n);
    if (chunk_end - chunk < (ptrdiff_t)n) {
        if (!(chunk = map(CHUNK)))
            return NULL;
        chunk_end = chunk + CHUNK;
    }
    char *p = chunk;
    chunk += n;
    return p;
}

static void put_head(char *block, unsigned class, size_t back)
{
    memcpy(block - 16, &(uint64_t[]){class, back}, 16);
}

static char *take(unsigned class)
{
    pthread_mutex_lock(&outer);
    pthread_mutex_lock(&inner);
    char *p = (char *)lists[class];
    if (p)
        lists[class] = lists[class]->next;
    pthread_mutex_unlock(&inner);
    if (!p && (p = carve(class)))
        p += HEAD;
    pthread_mutex_unlock(&outer);
    if (p)
        put_head(p, class, 0);
    return p;
}

EXPORT void *malloc(size_t n)
{
    char *p = n < (size_t)1 << (N_CLASSES - 1) ? take(class_of(n)) : NULL;
    if (!p)
        errno = ENOMEM;
    return p;
}

EXPORT void free(void *pointer)
{
    if (!pointer)
        return;
    uint64_t head[2];
    memcpy(head, (char *)pointer - 16, 16);
    struct block *block = (struct block *)((char *)pointer - head[1]);
    pthread_mutex_lock(&outer);
    pthread_mutex_lock(&inner);
    block->next = lists[head[0]];
    lists[head[0]] = block;
    pthread_mutex_unlock(&inner);
    pthread_mutex_unlock(&outer);
}

EXPORT void *calloc(size_t n, size_t size)
{
    size_t n_bytes;
    if (__builtin_mul_overflow(n, size, &n_bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *p = malloc(n_bytes);
    return p ? memset(p, 0, n_bytes) : NULL;
}

EXPORT size_t malloc_usable_size(void *pointer)
{
    uint64_t head[2];
    if (!pointer)
        return 0;
    memcpy(head, (char *)pointer - 16, 16);
    return ((size_t)1 << head[0]) - head[1];
}

EXPORT void *realloc(void *pointer, size_t n)
{
    size_t had = malloc_usable_size(pointer);
    if (pointer && n && n <= had)
        return pointer;
    if (pointer && !n) {
        free(pointer);
        return NULL;
    }
    void *p = malloc(n);
    if (p && pointer) {
        memcpy(p, pointer, had);
        free(pointer);
    }
    return p;
}

EXPORT void *memalign(size_t align, size_t n)
{
    char *p = align <= 16 ? malloc(n) : malloc(n + align);
    if (!p || align <= 16)
        return p;
    char *aligned = (char *)(((uintptr_t)p + align - 1) & ~(align - 1));
    if (aligned != p)
        put_head(aligned, class_of(n + align), (size_t)(aligned - p));
    return aligned;
}

EXPORT void *aligned_alloc(size_t align, size_t n)
{
    return memalign(align, n);
}

EXPORT int posix_memalign(void **to, size_t align, size_t n)
{
    if (align < sizeof(void *) || align & (align - 1))
        return EINVAL;
    int saved = errno;
    void *p = memalign(align, n);
    errno = saved;
    if (!p)
        return ENOMEM;
    *to = p;
    return 0;
}

EXPORT void *valloc(size_t n)
{
    return memalign(4096, n);
}

EXPORT void *pvalloc(size_t n)
{
    return memalign(4096, (n + 4095) & ~(size_t)4095);
}

static void lock_for_fork(void)
{
    pthread_mutex_lock(&outer);
    pthread_mutex_lock(&inner);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&inner);
    pthread_mutex_unlock(&outer);
}

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}
