/* SPDX-License-Identifier: MIT */
/*
 * victim_probes N LEAST MOST - makes N blocks of LEAST to MOST bytes, gives every fourth a new size, and frees every
 * second. Prints `allocated OBJECTS BYTES` and `kept OBJECTS BYTES`. Before it begins it stops itself if the
 * environment has STOP.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned state = 12345;

static size_t random_size(size_t least, size_t most)
{
    state = state * 1103515245u + 12345u;
    return least + (state >> 8) % (most - least + 1);
}

__attribute__((noinline)) void *make_block(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

__attribute__((noinline)) void *change_block(void *old, size_t n)
{
    void *p = realloc(old, n);
    __asm__ volatile("" : "+r"(p));
    return p;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    size_t n = strtoul(argv[1], NULL, 10), least = strtoul(argv[2], NULL, 10), most = strtoul(argv[3], NULL, 10);
    size_t n_objects = 0, n_bytes = 0, n_kept = 0, n_kept_bytes = 0;
    void **blocks = malloc(n * sizeof *blocks);
    if (getenv("STOP"))
        raise(SIGSTOP);
    for (size_t i = 0; i < n; i++) {
        size_t size = random_size(least, most);
        blocks[i] = make_block(size);
        n_objects++;
        n_bytes += size;
        if (i % 4 == 1) {
            size = random_size(least, most);
            blocks[i] = change_block(blocks[i], size);
            n_objects++;
            n_bytes += size;
        }
        if (i % 2) {
            n_kept++;
            n_kept_bytes += size;
        } else {
            free(blocks[i]);
        }
    }
    if (getenv("STOP"))
        raise(SIGSTOP);
    printf("allocated %zu %zu\nkept %zu %zu\n", n_objects, n_bytes, n_kept, n_kept_bytes);
    return 0;
}
