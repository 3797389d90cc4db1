/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "binary/binary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int je_malloc = 1; /* data of that name is no allocator */

static unsigned char *self;
static size_t n_self;

static int read_self(void **state)
{
    struct stat st;
    int fd = open("/proc/self/exe", O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    n_self = (size_t)st.st_size;
    self = malloc(n_self);
    assert_int_equal(read(fd, self, n_self), n_self);
    close(fd);
    return 0;
}

static int judge(const void *bytes, size_t n_bytes, struct dp_binary *elf)
{
    char path[64];
    int fd = memfd_create("binary", 0);
    assert_int_equal(write(fd, bytes, n_bytes), n_bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int err = dp_binary_read(path, elf);
    close(fd);
    return err;
}

TEST(this_program_is_one_of_ours)
{
    struct dp_binary elf;
    assert_int_equal(dp_binary_read("/proc/self/exe", &elf), 0);
    assert_true(elf.is_elf && elf.is_ours);
    assert_non_null(strstr(elf.interp, "ld-linux"));
#ifndef __SANITIZE_ADDRESS__ /* whose malloc may be linked in */
    assert_string_equal(elf.own_malloc, "");
#endif
}

TEST(other_files_are_none)
{
    struct dp_binary elf;
    assert_int_equal(judge("", 0, &elf), 0);
    assert_false(elf.is_elf);
    assert_int_equal(judge("#!/bin/sh\n", 10, &elf), 0);
    assert_false(elf.is_elf);
    assert_int_equal(judge("\177ELF", 4, &elf), 0);
    assert_true(elf.is_elf);
    assert_false(elf.is_ours);
    assert_int_equal(dp_binary_read("/no/where", &elf), -ENOENT);
}

/* The libraries that a program needs tell whether it has a sanitizer with an allocator of its own. */
TEST(a_needed_library_shows_a_sanitizer)
{
    static const struct {
        const char *library;
        bool is_sanitizer;
    } cases[] = {{"libasan.so.8", true},       {"libhwasan.so.0", true}, {"liblsan.so.0", true},
                 {"libtsan.so.2", true},       {"libubsan.so.1", false}, {"libclang_rt.a", true},
                 {"libclang_rt.ubsan", false}, {"libasan-so", false}};
    struct dp_binary elf;
    assert_int_equal(judge(self, n_self, &elf), 0);
    if (elf.sanitizer[0]) /* this program has one */
        skip();
    char *needed = memmem(self, n_self, "libcmocka.so", 12), kept[18];
    assert_non_null(needed);
    memcpy(kept, needed, sizeof kept);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        strcpy(needed, cases[i].library);
        assert_int_equal(judge(self, n_self, &elf), 0);
        assert_string_equal(elf.sanitizer, cases[i].is_sanitizer ? cases[i].library : "");
        memcpy(needed, kept, sizeof kept);
    }
}

TEST(a_file_may_end_anywhere)
{
    struct dp_binary elf;
    for (size_t n = 0; n < n_self; n += n < 2048 ? 7 : 4093)
        assert_int_equal(judge(self, n, &elf), 0);
}

TEST(a_file_may_say_anything)
{
    struct dp_binary elf;
    unsigned char *bytes = malloc(n_self);
    srand(1);
    for (int i = 0; i < 2000; i++) {
        memcpy(bytes, self, n_self);
        for (int j = 0; j < 8; j++) {
            /* Mostly the headers, which lead everywhere else; section headers stand at the end. */
            size_t where = (size_t)rand() % (j % 2 ? 1024 : n_self);
            bytes[j % 4 == 2 ? n_self - 1 - where % 4096 : where] = (unsigned char)rand();
        }
        assert_int_equal(judge(bytes, n_self, &elf), 0);
        assert_true(memchr(elf.interp, 0, sizeof elf.interp) && memchr(elf.own_malloc, 0, sizeof elf.own_malloc));
    }
    free(bytes);
}

UNIT(read_self, NULL)
