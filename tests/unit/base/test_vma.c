/* SPDX-License-Identifier: MIT */
/* Lines of /proc/PID/maps: what kinds they are, and where the .bss of this program ends. */
#include "base/vma.h"

#include <stdio.h>
#include <string.h>
#include "support/unit.h"
#include <pthread.h>

#if defined(__aarch64__)
#define G "10000" /* the last digits of the length of a guard */
#else
#define G "01000"
#endif

static size_t parse(const char *text, struct dp_vma *vmas)
{
    size_t n = 0;
    for (const char *end; *text; text = end + 1) {
        end = strchr(text, '\n');
        assert_true(dp_vma_parse(text, (size_t)(end - text), &vmas[n]));
        n++;
    }
    dp_vma_classify(vmas, n);
    return n;
}

TEST(kinds_follow_from_names_neighbours_and_addresses)
{
    static const struct {
        const char *line;
        enum dp_vma_kind kind;
    } rows[] = {
        {"400000-401000 r-xp 00000000 fe:00 17       /bin/a b", DP_VMA_FILE},
        {"401000-402000 rw-p 00001000 fe:00 17       /bin/a b", DP_VMA_FILE},
        {"402000-405000 rw-p 00000000 00:00 0 ", DP_VMA_FILE},
        {"1000000-1021000 rw-p 00000000 00:00 0      [heap]", DP_VMA_BRK},
        {"7f0000000000-7f0000021000 rw-p 00000000 00:00 0 ", DP_VMA_ARENA},
        {"7f0000021000-7f0004000000 ---p 00000000 00:00 0 ", DP_VMA_OTHER},
        {"7f0008000000-7f0008021000 rw-p 00000000 00:00 0 ", DP_VMA_MAPPED}, /* nothing is reserved behind it */
        {"7f1000000000-7f10000" G " ---p 00000000 00:00 0 ", DP_VMA_OTHER},
        {"7f10000" G "-7f1000808000 rw-p 00000000 00:00 0 ", DP_VMA_MAPPED}, /* an odd size for a stack */
        {"7f1000900000-7f10009" G " ---p 00000000 00:00 0 ", DP_VMA_OTHER},
        {"7f10009" G "-7f10011" G " rw-p 00000000 00:00 0 ", DP_VMA_STACK},
        {"7f2000000000-7f2000100000 rw-p 00000000 00:00 0  [anon:pool]", DP_VMA_MAPPED},
        {"7f3000000000-7f3000100000 rw-s 00000000 00:01 7  /dev/zero (deleted)", DP_VMA_SHARED},
        {"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0  [stack]", DP_VMA_STACK},
        {"7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0  [vdso]", DP_VMA_OTHER},
    };
    enum { N = sizeof rows / sizeof *rows };
    struct dp_vma vmas[N];
    char text[4096] = "";
    for (size_t i = 0; i < N; i++)
        strcat(strcat(text, rows[i].line), "\n");
    assert_int_equal(parse(text, vmas), N);
    for (size_t i = 0; i < N; i++)
        if (vmas[i].kind != rows[i].kind)
            fail_msg("%s: %d", rows[i].line, vmas[i].kind);
    assert_int_equal(vmas[1].offset, 0x1000);
    assert_memory_equal(vmas[1].name, "/bin/a b", vmas[1].n_name);
    assert_ptr_equal(dp_vma_find(vmas, N, 0x401fff), &vmas[1]);
    assert_null(dp_vma_find(vmas, N, 0x405000));
    assert_null(dp_vma_find(vmas, N, 0));
    assert_null(dp_vma_find(vmas, 0, 0x401fff));
}

TEST(other_lines_are_none)
{
    static const char *const lines[] = {"",
                                        "Rss:                  8 kB",
                                        "VmFlags: rd ex mr mw me ",
                                        "-",
                                        "1000-",
                                        "1000-2000",
                                        "2000-1000 rw-p 00000000 00:00 0",
                                        "1000-2000 rw"};
    struct dp_vma vma;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_false(dp_vma_parse(lines[i], strlen(lines[i]), &vma));
}

static char zeros[3 << 20]; /* .bss */

/* Finds the line of maps that holds an address, and the one before. */
static void find_lines(uintptr_t address, char lines[2][4096], struct dp_vma vmas[2])
{
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    do {
        memcpy(lines[0], lines[1], 4096);
        assert_non_null(fgets(lines[1], 4096, maps));
        assert_true(dp_vma_parse(lines[1], strcspn(lines[1], "\n"), &vmas[1]));
    } while (address >= vmas[1].end);
    fclose(maps);
    assert_true(dp_vma_parse(lines[0], strcspn(lines[0], "\n"), &vmas[0]));
}

TEST(the_bss_ends_where_its_file_says)
{
    static char lines[2][4096];
    const struct dp_vma_cuts cuts = {"", 8 << 20}, elsewhere = {"/nowhere", 8 << 20};
    struct dp_vma vmas[2], rest;
    zeros[0] = 1;
    find_lines((uintptr_t)zeros + sizeof zeros / 2, lines, vmas);
    uintptr_t end = vmas[1].end;
    assert_false(dp_vma_cut(&cuts, &vmas[0], &vmas[1], &rest)); /* as long as the file says */
    vmas[1].end += 5 << 20;                                     /* joined with another mapping */
    assert_true(dp_vma_cut(&cuts, &vmas[0], &vmas[1], &rest));
    assert_int_equal(vmas[1].end, end);
    assert_int_equal(rest.start, end);
    assert_int_equal(rest.end, end + (5 << 20));
    assert_false(vmas[1].is_apart);
    assert_false(dp_vma_cut(&elsewhere, &vmas[0], &rest, &vmas[1]));
    vmas[0].is_writable = false; /* as where a program protects the end of its data */
    assert_false(dp_vma_cut(&cuts, &vmas[0], &vmas[1], &rest));
    dp_vma_classify(vmas, 2);
    assert_int_equal(vmas[1].kind, DP_VMA_FILE);
}

TEST(a_stack_ends_where_its_size_says)
{
    static const char lines[] = "7f1000000000-7f10000" G " ---p 00000000 00:00 0 \n"
                                "7f10000" G "-7f1003000000 rw-p 00000000 00:00 0 \n";
    const struct dp_vma_cuts cuts = {"", 8 << 20};
    struct dp_vma vmas[3];
    assert_int_equal(parse(lines, vmas), 2);
    assert_true(dp_vma_cut(&cuts, &vmas[0], &vmas[1], &vmas[2]));
    assert_int_equal(vmas[1].end, vmas[1].start + cuts.stack_bytes);
    dp_vma_classify(vmas, 3);
    assert_int_equal(vmas[1].kind, DP_VMA_STACK);
    assert_int_equal(vmas[2].kind, DP_VMA_MAPPED);
    assert_false(dp_vma_cut(&cuts, &vmas[0], &vmas[1], &vmas[2])); /* is as long as that already */
    assert_false(dp_vma_cut(&cuts, NULL, &vmas[1], &vmas[2]));
}

static void *stack_of_this_thread(void *kind)
{
    static char lines[2][4096];
    struct dp_vma vmas[2];
    size_t n_bytes;
    void *start;
    pthread_attr_t attr;
    find_lines((uintptr_t)&start, lines, vmas);
    assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
    pthread_attr_getstack(&attr, &start, &n_bytes);
    pthread_attr_destroy(&attr);
    const struct dp_vma_cuts cuts = {"", n_bytes};
    struct dp_vma rest = {.start = 0};
    dp_vma_cut(&cuts, &vmas[0], &vmas[1], &rest); /* the kernel may have joined it with what lies above */
    dp_vma_classify(vmas, 2);
    assert_int_equal(vmas[1].start, (uintptr_t)start);
    assert_int_equal(vmas[1].end, (uintptr_t)start + n_bytes);
    *(int *)kind = vmas[1].kind;
    return NULL;
}

TEST(a_stack_of_glibc_is_found)
{
    pthread_t thread;
    int kind = -1;
    assert_int_equal(pthread_create(&thread, NULL, stack_of_this_thread, &kind), 0);
    pthread_join(thread, NULL);
    assert_int_equal(kind, DP_VMA_STACK);
}

UNIT(NULL, NULL)
