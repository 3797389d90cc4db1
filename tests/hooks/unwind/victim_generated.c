/* SPDX-License-Identifier: MIT */
/*
 * Makes code at run time, which has no unwind tables, and allocates in functions that it calls. Prints its pid and the
 * address of the code. usage: victim_generated MODE. `keeps`: the code keeps a frame pointer. `moves`: it points the
 * register elsewhere into the stack. `clears`: it sets the register to 0. `map`: it keeps a frame pointer, and has a
 * name in /tmp/perf-PID.map.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
static const uint8_t keeps[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
/* push %rbp; lea 40(%rsp), %rbp; call *%rdi; pop %rbp; ret */
static const uint8_t moves[] = {0x55, 0x48, 0x8d, 0x6c, 0x24, 0x28, 0xff, 0xd7, 0x5d, 0xc3};
/* push %rbp; xor %ebp, %ebp; call *%rdi; pop %rbp; ret */
static const uint8_t clears[] = {0x55, 0x31, 0xed, 0xff, 0xd7, 0x5d, 0xc3};
#elif defined(__aarch64__)
/* stp x29, x30, [sp, -16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], 16; ret */
static const uint32_t keeps[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
/* add x29, sp, 40 */
static const uint32_t moves[] = {0xa9bf7bfd, 0x9100a3fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
/* mov x29, 0 */
static const uint32_t clears[] = {0xa9bf7bfd, 0xd280001d, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
#endif

typedef void (*callback_fn)(void);
static void (*generated)(callback_fn);
void *volatile kept[64];
static int depth;

__attribute__((noinline)) void inner(void)
{
    for (int i = 0; i < 8; i++)
        kept[depth * 8 + i] = malloc(1000);
    if (++depth < 4)
        generated(inner); /* generated code, native code, generated code */
    depth--;
}

__attribute__((noinline)) void outer(void)
{
    generated(inner);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    const void *code = keeps;
    size_t n = sizeof keeps;
    assert(argc == 2);
    if (!strcmp(argv[1], "moves")) {
        code = moves;
        n = sizeof moves;
    } else if (!strcmp(argv[1], "clears")) {
        code = clears;
        n = sizeof clears;
    }
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(page != MAP_FAILED);
    memcpy(page, code, n);
    assert(!mprotect(page, 4096, PROT_READ | PROT_EXEC));
    __builtin___clear_cache(page, (char *)page + n);
    memcpy(&generated, &page, sizeof page);
    if (!strcmp(argv[1], "map")) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
        FILE *map = fopen(path, "w");
        assert(map);
        fprintf(map, "not a line\n%lx 10 old name\n%lx %zx JS:~handler /app/file.js:12:3\nff", (long)page, (long)page,
                n);
        fclose(map);
    }
    printf("%d\n", (int)getpid());
    outer();
    return 0;
}
