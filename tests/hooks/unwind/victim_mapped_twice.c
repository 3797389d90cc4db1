/* SPDX-License-Identifier: MIT */
/*
 * Maps its own code a second time, as V8 does with its builtins, and allocates in a function of that mapping. It is
 * linked at a fixed address: there an offset in the file is no address.
 */
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *(*allocate_fn)(size_t);

/* Refers to nothing by address, so that it runs wherever it lies. */
__attribute__((noinline)) void *in_second_mapping(allocate_fn allocate, size_t n_bytes)
{
    char *volatile block = allocate(n_bytes);
    return block;
}

static int find_code(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)
            *(ElfW(Phdr) *)found = info->dlpi_phdr[i];
    return 1; /* the program comes first */
}

int main(void)
{
    ElfW(Phdr) code;
    uintptr_t in_page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    int fd = open("/proc/self/exe", O_RDONLY);
    dl_iterate_phdr(find_code, &code);
    char *second = mmap(NULL, code.p_memsz + (code.p_offset & in_page), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
                        (off_t)(code.p_offset & ~in_page));
    if (second == MAP_FAILED)
        return 1;
    uintptr_t inside = (uintptr_t)in_second_mapping - code.p_vaddr + (code.p_offset & in_page);
    void *(*function)(allocate_fn, size_t) = (void *(*)(allocate_fn, size_t))(second + inside);
    for (int i = 0; i < 10; i++)
        free(function(malloc, 1000));
    return 0;
}
