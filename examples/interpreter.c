/* SPDX-License-Identifier: MIT */
/*
 * interpreter.c - a toy interpreter: the functions of the program that it runs appear in profiles, with name, file and
 * line.
 *
 * A program is an array of instructions; `run` is the interpreter's loop. CALL does not call `run` again. SORT calls
 * `run` through a native function, as a real runtime's sort calls the comparison function. So one native frame of `run`
 * executes several of the program's functions. The provider names them: it pushes the program's frames, the innermost
 * first, and the address of a local variable in the frame of `run` that executes them.
 *
 *     cc interpreter.c $(pkg-config --cflags --libs deltaprof) && ./a.out profiles
 *     go tool pprof -traces profiles/a.out.*.heap.pb.gz
 */
#include <deltaprof/hooks.h>

#include <stdio.h>
#include <string.h>

enum op { ALLOC, CALL, SORT, RETURN };

struct function {
    const char *name;
    uint32_t first_line;
    struct instruction {
        enum op op;
        uint32_t line;
        const struct function *callee; /* of CALL and SORT */
    } code[4];
};

/* The active calls of the program, the outermost first. */
static struct call {
    const struct function *function;
    const struct instruction *at;
    const void *loop; /* the `run` that executes it */
} calls[16];
static unsigned n_calls;
static uint32_t heap;

static void run(const struct function *function);

__attribute__((noinline)) static void native_sort(const struct function *compare)
{
    run(compare);
    __asm__ volatile(""); /* keeps the frame: no tail call */
}

static char cells[4096];
static size_t n_used;

__attribute__((noinline)) static void run(const struct function *function)
{
    char anchor; /* its address lies inside this native frame */
    unsigned n_outer = n_calls;
    calls[n_calls++] = (struct call){function, function->code, &anchor};
    while (n_calls > n_outer) {
        struct call *call = &calls[n_calls - 1];
        const struct instruction *i = call->at;
        switch (i->op) {
        case ALLOC:
            deltaprof_alloc(heap, &cells[n_used], 16);
            n_used += 16;
            break;
        case CALL:
            calls[n_calls++] = (struct call){i->callee, i->callee->code, &anchor};
            break;
        case SORT:
            native_sort(i->callee);
            break;
        case RETURN:
            n_calls--;
            if (n_calls > n_outer)
                calls[n_calls - 1].at++; /* the caller was at its CALL until now */
            continue;
        }
        if (i->op != CALL)
            call->at++;
    }
}

/* The provider: called for each sample, on the sampled thread; it allocates nothing. */
static void frames(void *ctx, struct deltaprof_frames *out)
{
    for (unsigned i = n_calls; i-- > 0;) {
        const struct call *c = &calls[i];
        const struct deltaprof_function f = {.name = c->function->name,
                                             .n_name = (uint32_t)strlen(c->function->name),
                                             .file = "toy.src",
                                             .n_file = 7,
                                             .first_line = c->function->first_line};
        bool room = deltaprof_frames_push(out, deltaprof_function_find(&f), c->at->line);
        if (!room || !i || calls[i - 1].loop != c->loop)
            deltaprof_frames_anchor(out, c->loop);
        if (!room)
            return;
    }
}

int main(int argc, char **argv)
{
    static const struct function compare = {"compare", 30, {{ALLOC, 31, NULL}, {RETURN, 32, NULL}}};
    static const struct function sorted = {"sorted", 20, {{SORT, 21, &compare}, {RETURN, 22, NULL}}};
    static const struct function program = {
        "program", 10, {{ALLOC, 11, NULL}, {CALL, 12, &sorted}, {CALL, 13, &sorted}, {RETURN, 14, NULL}}};
    char conf[4200];
    snprintf(conf, sizeof conf, "heap_rate=1,interval=0,out=%s", argc > 1 ? argv[1] : "profiles");
    heap = deltaprof_heap_register("toy");
    deltaprof_frames_provide(frames, NULL);
    int err = deltaprof_start(conf);
    if (err) {
        fprintf(stderr, "cannot start the profiler: %s\n", strerror(-err));
        return 1;
    }
    run(&program);
    return deltaprof_emit() != 0;
}
