/* SPDX-License-Identifier: MIT */
/* Asks for the size of a block, and maps three pages itself. */
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static __attribute__((noinline)) char *maps(void)
{
    char *start =
        mmap(NULL, 3 * (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

int main(void)
{
    char *block = malloc(100), *pages = maps();
    return block && pages && malloc_usable_size(block) >= 100 ? 0 : 1;
}
