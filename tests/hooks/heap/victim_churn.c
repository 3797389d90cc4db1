/* SPDX-License-Identifier: MIT */
/*
 * victim_churn - blocks that a change could save, and blocks that none could; prints what it did as `NAME NUMBER`:
 * frees of temporary blocks, blocks and bytes that realloc moved, and of a container that grew.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TEMPORARY = 5000, LEAST = 64, MOST = 64 << 10, N_BUFFERS = 50 };

__attribute__((noinline)) void *make_temporary(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

__attribute__((noinline)) void *make_kept(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

__attribute__((noinline)) void *grow_buffer(void *old, size_t n)
{
    void *p = realloc(old, n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

/* As std::vector does. */
__attribute__((noinline)) void *grow_vector(void *old, size_t n_old, size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p));
    if (n_old)
        memcpy(p, old, n_old);
    free(old);
    return p;
}

int main(void)
{
    size_t n_moved = 0, n_moved_bytes = 0, n_outgrown = 0, n_outgrown_bytes = 0;
    for (int i = 0; i < N_TEMPORARY; i++)
        free(make_temporary(100));
    for (int i = 0; i < N_BUFFERS; i++) {
        void *buffer = NULL;
        for (size_t n = LEAST; n <= MOST; n *= 2) {
            void *old = buffer;
            buffer = grow_buffer(buffer, n);
            make_kept(24); /* behind the block, so that it cannot grow in its place */
            n_moved += old && old != buffer;
            n_moved_bytes += old && old != buffer ? n / 2 : 0;
        }
    }
    for (int i = 0; i < N_BUFFERS; i++) {
        void *vector = NULL;
        for (size_t n = LEAST; n <= MOST; n *= 2) {
            vector = grow_vector(vector, vector ? n / 2 : 0, n);
            n_outgrown += n > LEAST;
            n_outgrown_bytes += n > LEAST ? n / 2 : 0;
        }
    }
    printf("temporary %d\nmoved %zu\nmoved_bytes %zu\noutgrown %zu\noutgrown_bytes %zu\n", N_TEMPORARY, n_moved,
           n_moved_bytes, n_outgrown, n_outgrown_bytes);
    return 0;
}
