/* SPDX-License-Identifier: MIT */
/* Its thread-local variables are larger than the stacks of the profiler's threads. Allocates until its input ends. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static __thread char large[1 << 20];
static void *volatile kept;

int main(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (int i = 0; poll(&input, 1, 10) == 0; i++) {
        memset(large, i, sizeof large);
        kept = malloc(1000);
        free(kept);
    }
    return 5;
}
