// SPDX-License-Identifier: MIT
// victim_works.c - makes a known number of blocks: victim_works BLOCKS end|wait|slow. "wait": then waits until it is
// killed. "slow": takes its time, and ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 100 };

__attribute__((noinline, noclone)) static void *works(void)
{
    void *block = malloc(BYTES);
    __asm__ volatile("" : "+r"(block));
    return block;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    for (int n = atoi(argv[1]); n > 0; n--) {
        void *block = works();
        if (n % 2) // the other half stays in use
            free(block);
        if (!strcmp(argv[2], "slow") && n % 100 == 0)
            usleep(5000);
    }
    if (write(1, "done\n", 5) != 5)
        return 1;
    while (!strcmp(argv[2], "wait"))
        pause();
    return 0;
}
