/* SPDX-License-Identifier: MIT */
/*
 * victim_libc - allocates in callbacks of libc, inside libc, and below code that has only a frame pointer, as generated
 * code has; in main and in a thread, and uses the processor there for half a second each.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 2000 };

static char words[N][24];
static void *volatile kept;

__attribute__((noinline)) static void *allocated_by_compare(void)
{
    kept = malloc(100);
    return kept;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int compare_and_allocate(const void *a, const void *b)
{
    free(allocated_by_compare());
    return strcmp(a, b);
}

__attribute__((noinline)) static void *duplicate(const char *word)
{
    kept = strdup(word);
    return kept;
}

__attribute__((noinline, used)) static void allocate_below(void)
{
    kept = malloc(10);
    free(kept);
}

extern void without_unwind_data(void);
#if defined(__aarch64__)
__asm__(".pushsection .text\n"
        ".type without_unwind_data, @function\n"
        "without_unwind_data:\n"
        "    stp x29, x30, [sp, -16]!\n"
        "    mov x29, sp\n"
        "    bl allocate_below\n"
        "    ldp x29, x30, [sp], 16\n"
        "    ret\n"
        ".size without_unwind_data, . - without_unwind_data\n"
        ".popsection\n");
#else
__asm__(".pushsection .text\n"
        ".type without_unwind_data, @function\n"
        "without_unwind_data:\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    call allocate_below\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size without_unwind_data, . - without_unwind_data\n"
        ".popsection\n");
#endif

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void fill(char to[][24])
{
    for (int i = 0; i < N; i++)
        snprintf(to[i], sizeof to[i], "%.6f", (double)(i * 7919 % N) / 3);
}

__attribute__((noinline)) static void work(char list[][24])
{
    char copy[N / 8][24];
    fill(list);
    qsort(list, 64, sizeof *list, compare_and_allocate);
    for (int i = 0; i < 500; i++)
        free(duplicate(list[i]));
    for (int i = 0; i < 500; i++)
        without_unwind_data();
    for (int64_t begin = cpu_ns(); cpu_ns() - begin < 500000000;) {
        fill(list);
        qsort(list, N, sizeof *list, compare);
        for (int i = 0; i < 100; i++)
            memcpy(copy, list + i, sizeof copy);
        kept = (void *)(uintptr_t)strtod(list[N / 2], NULL);
    }
}

static void *work_in_thread(void *list)
{
    work(list);
    return NULL;
}

int main(void)
{
    static char more[N][24];
    pthread_t thread;
    pthread_create(&thread, NULL, work_in_thread, more);
    work(words);
    pthread_join(thread, NULL);
    return 0;
}
