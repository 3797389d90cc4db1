/* SPDX-License-Identifier: MIT */
/*
 * victim_host PLUGIN [deepbind] - a C program without libstdc++ that opens a C++ library and calls its functions, which
 * use exceptions, new and delete.
 */
#include "../../support/tally.h"

#include <dlfcn.h>
#include <pthread.h>

static void *library;

static void *function(const char *name)
{
    void *f = dlsym(library, name);
    if (!f) {
        fprintf(stderr, "%s\n", dlerror());
        exit(4);
    }
    return f;
}

int main(int argc, char **argv)
{
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | (argc > 2 ? RTLD_DEEPBIND : 0));
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    int (*destructors_run)(void) = (int (*)(void))function("plugin_destructors_run");
    void (*news)(void) = (void (*)(void))function("plugin_news");
    int (*throws)(int) = (int (*)(int))function("plugin_throws");
    void *(*new)(size_t) = (void *(*)(size_t))function("plugin_new");
    void *(*new_array)(size_t) = (void *(*)(size_t))function("plugin_new_array");
    void (*delete)(void *) = (void (*)(void *))function("plugin_delete");

    printf("destructors: %d\n", destructors_run());
    news();
    fflush(stdout); /* the library prints by the same libc, and so into the same buffer */
    printf("caught: %d\n", throws(50));
    for (int i = 0; i < 1000; i++) {
        delete (new (100));
        free(new_array(200)); /* wrong, but some programs do it, and it works */
        delete (malloc(300));
    }
    void *held = new (1000), *held_array = new_array(2000);
    printf("held: %d\n", held && held_array);
    return 0;
}
