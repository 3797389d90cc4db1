/* SPDX-License-Identifier: MIT */
/*
 * A program whose handler runs on a signal stack with room for one signal, with a guard page below, and uses CPU time
 * there. Prints the mask of the handler's action as the program sees it.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static volatile uint64_t n_steps;

static void use_cpu_time(int sig)
{
    (void)sig;
    struct timespec from, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        n_steps++;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < 30000000);
}

int main(void)
{
    enum { GUARD_BYTES = 65536, STACK_BYTES = 8192 };
    char *memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory + GUARD_BYTES, .ss_size = STACK_BYTES};
    struct sigaction action = {.sa_handler = use_cpu_time, .sa_flags = SA_ONSTACK}, old;
    static const sigset_t none;
    if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) || sigaltstack(&stack, NULL) ||
        sigaction(SIGUSR1, &action, NULL) || sigaction(SIGUSR1, NULL, &old))
        return 1;
    for (int i = 0; i < 20; i++)
        raise(SIGUSR1);
    /* The kernel writes as many bytes as it has signals. */
    printf("%s\n", memcmp(&old.sa_mask, &none, sizeof(unsigned long)) ? "another mask" : "same mask");
    return 0;
}
