// SPDX-License-Identifier: MIT
// victim_works.c - makes a known number of blocks: victim_works BLOCKS HOW.
//   end    then ends
//   wait   then waits until it is killed
//   locks  the same; before, three times waits for a semaphore in vain
//   stuck  the same, in a wait for a semaphore
//   slow   takes its time, and ends
//   fork   a child makes a tenth as many; both then wait
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 100 };

__attribute__((noinline, noclone)) static void *works(void)
{
    void *block = malloc(BYTES);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static void wait_in_vain(void)
{
    sem_t never;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    sem_init(&never, 0, 0);
    for (int i = 0; i < 3; i++)
        sem_timedwait(&never, &until);
}

static void make_blocks(int n, bool is_slow)
{
    for (; n > 0; n--) {
        void *block = works();
        if (n % 2) // the other half stays in use
            free(block);
        if (is_slow && n % 100 == 0)
            usleep(5000);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    bool forks = !strcmp(argv[2], "fork"), locks = !strcmp(argv[2], "locks");
    make_blocks(atoi(argv[1]), !strcmp(argv[2], "slow"));
    if (forks && fork() == 0)
        make_blocks(atoi(argv[1]) / 10, false);
    else if (forks)
        pause();
    if (locks)
        wait_in_vain();
    if (write(1, "done\n", 5) != 5)
        return 1;
    sem_t never;
    if (!strcmp(argv[2], "stuck") && !sem_init(&never, 0, 0))
        sem_wait(&never);
    while (forks || locks || !strcmp(argv[2], "wait"))
        pause();
    return 0;
}
