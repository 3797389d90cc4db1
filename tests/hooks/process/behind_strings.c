/* SPDX-License-Identifier: MIT */
/*
 * behind_strings.c - interposes functions of libc that the search for the real functions calls, too. Each of them locks
 * a mutex, so a hook is called during that search. Two threads never wait for each other here.
 */
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define KEPT   __asm__ volatile("") /* else the compiler makes a call of the function out of its loop */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

PUBLIC size_t strlen(const char *s)
{
    size_t n = 0;
    pthread_mutex_lock(&lock);
    for (; s[n]; n++)
        KEPT;
    pthread_mutex_unlock(&lock);
    return n;
}

PUBLIC int strcmp(const char *a, const char *b)
{
    pthread_mutex_lock(&lock);
    for (; *a && *a == *b; a++, b++)
        KEPT;
    pthread_mutex_unlock(&lock);
    return (unsigned char)*a - (unsigned char)*b;
}

PUBLIC void *memset(void *to, int byte, size_t n)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n; i++) {
        KEPT;
        ((char *)to)[i] = (char)byte;
    }
    pthread_mutex_unlock(&lock);
    return to;
}

PUBLIC unsigned long getauxval(unsigned long type)
{
    char **end = environ;
    unsigned long value = 0;
    pthread_mutex_lock(&lock);
    while (end && *end)
        end++;
    for (const ElfW(auxv_t) *a = end ? (const ElfW(auxv_t) *)(end + 1) : NULL; a && a->a_type; a++)
        if (a->a_type == type)
            value = a->a_un.a_val;
    pthread_mutex_unlock(&lock);
    return value;
}
