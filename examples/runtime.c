/* SPDX-License-Identifier: MIT */
/*
 * runtime.c - a small language runtime that reports the allocations of its own heap, which malloc hooks cannot see.
 *
 * The program links the core library only (pkg-config deltaprof), so no function is interposed. When no sample is due,
 * deltaprof_alloc and deltaprof_free cost a subtraction and a load. The profiles go to a directory, as under
 * `deltaprof run`.
 *
 *     cc runtime.c $(pkg-config --cflags --libs deltaprof) && ./a.out profiles
 *     go tool pprof -top profiles/a.out.*.heap.pb.gz
 */
#include <deltaprof/hooks.h>

#include <stdio.h>
#include <string.h>

/* A heap of cells: new cells are allocated in order, freed cells go to a list and are used first. */
struct cell {
    struct cell *next;
    char bytes[56];
};
static struct cell cells[4096], *free_cells;
static size_t n_used;
static uint32_t heap;

__attribute__((noinline)) static struct cell *cell_new(void)
{
    struct cell *cell = free_cells;
    if (cell)
        free_cells = cell->next;
    else
        cell = &cells[n_used++];
    deltaprof_alloc(heap, cell, sizeof *cell);
    return cell;
}

__attribute__((noinline)) static void cell_free(struct cell *cell)
{
    deltaprof_free(heap, cell); /* before the cell can be allocated again */
    cell->next = free_cells;
    free_cells = cell;
}

__attribute__((noinline)) static struct cell *read_list(int n)
{
    struct cell *list = NULL;
    while (n-- > 0) {
        struct cell *cell = cell_new();
        cell->next = list;
        list = cell;
    }
    return list;
}

int main(int argc, char **argv)
{
    char conf[4200];
    snprintf(conf, sizeof conf, "heap_rate=1,interval=0,out=%s", argc > 1 ? argv[1] : "profiles");
    heap = deltaprof_heap_register("cells");
    int err = deltaprof_start(conf);
    if (err) {
        fprintf(stderr, "cannot start the profiler: %s\n", strerror(-err));
        return 1;
    }
    struct cell *kept = read_list(100), *garbage = read_list(900);
    while (garbage) {
        struct cell *next = garbage->next;
        cell_free(garbage);
        garbage = next;
    }
    err = deltaprof_emit(); /* with an interval, a thread of the library does this; exit does it again */
    if (err)
        fprintf(stderr, "no profile: %s\n", strerror(-err));
    return err || !kept;
}
