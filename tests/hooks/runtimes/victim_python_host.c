/* SPDX-License-Identifier: MIT */
/*
 * Embeds Python: opens the libpython of argv[1] with the flags of argv[2] (global or local), then starts, runs and ends
 * the interpreter argv[3] times. Writes "ok" if all went well.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "import threading\n"
                              "def grow(n): return [bytearray(3000) for _ in range(n)]\n"
                              "def deep(n): return deep(n - 1) if n else grow(20)\n"
                              "threads = [threading.Thread(target=deep, args=(20,)) for _ in range(3)]\n"
                              "for t in threads: t.start()\n"
                              "kept = deep(50) + [str(i) for i in range(3000)]\n"
                              "for t in threads: t.join()\n";

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        printf("no %s\n", name);
        exit(2);
    }
    return symbol;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    void *library = dlopen(argv[1], RTLD_NOW | (strcmp(argv[2], "global") ? RTLD_LOCAL : RTLD_GLOBAL));
    if (!library) {
        printf("%s\n", dlerror());
        return 2;
    }
    void (*begin)(int) = (void (*)(int))find(library, "Py_InitializeEx");
    int (*run)(const char *) = (int (*)(const char *))find(library, "PyRun_SimpleString");
    int (*end)(void) = (int (*)(void))find(library, "Py_FinalizeEx");
    *(int *)find(library, "Py_NoSiteFlag") = 1; /* fewer modules */
    for (int i = 0; i < atoi(argv[3]); i++) {
        begin(0);
        if (run(program) || end()) {
            printf("round %d failed\n", i);
            return 1;
        }
    }
    puts("ok");
    return 0;
}
