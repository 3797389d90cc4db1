/* SPDX-License-Identifier: MIT */
/*
 * base/module.c - opens modules by dlopen, each once.
 *
 * No lock of the profiler is held during dlopen. Otherwise this deadlock could happen: a thread inside the loader runs
 * a constructor that comes here and waits for that lock, while its holder waits for the loader's lock. Two threads may
 * open one module at the same time: the loader gives both the same object, and publishing the same table twice is
 * harmless. [OPS] `ops` is stored with release and loaded with acquire in dp_module_opened, so that the table's
 * relocated pointers are seen with its address.
 *
 * dlopen calls malloc while it holds locks of the loader. A thread's first malloc may wait for a lock under which the
 * allocator creates threads (jemalloc with background threads), and pthread_create waits for the loader. So each thread
 * calls malloc once before dlopen.
 */
#include "base/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static const void *fail(struct dp_module *module, const char *why)
{
    dp_store_release(&module->error, why);
    return NULL;
}

/* Fails with the text that the loader left for this thread: it names the library and the reason. */
static const void *fail_to_load(struct dp_module *module)
{
    unsigned taken = 0;
    const char *why = dlerror(), *none = NULL;
    if (!dp_cas_relaxed(&module->loader_error_is_taken, &taken, 1)) {
        /* another thread writes the text and publishes it */
        (void)dp_cas_publish(&module->error, &none, "the module does not load");
        return NULL;
    }
    snprintf(module->loader_error, sizeof module->loader_error, "the module does not load: %s",
             why ? why : "the loader gives no reason");
    return fail(module, module->loader_error);
}

/* Whether the program was started without a loader: then dlopen would bring a second libc. */
static bool is_static(void)
{
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    for (unsigned long n = p ? getauxval(AT_PHNUM) : 0; n; n--, p++)
        if (p->p_type == PT_INTERP)
            return false;
    return true;
}

/*
 * Writes the absolute path of the file with this code. The loader's name may be relative, or a bare argv[0]; after a
 * chdir it could lead to a foreign module. Then the kernel is asked instead.
 */
static int own_file(char path[PATH_MAX])
{
    Dl_info self;
    if (!dladdr((const void *)own_file, &self))
        return 0;
    if (self.dli_fname && self.dli_fname[0] == '/')
        return snprintf(path, PATH_MAX, "%s", self.dli_fname) < PATH_MAX;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128], *file = NULL;
    while (maps && !file && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (uintptr_t)own_file && (uintptr_t)own_file < end)
            file = strchr(line, '/');
    }
    if (maps)
        fclose(maps);
    if (file)
        snprintf(path, PATH_MAX, "%.*s", (int)strcspn(file, "\n"), file);
    return file != NULL;
}

/*
 * Writes the module's path: beside this code, else, if the profiler is linked into the program, where modules are
 * installed. 0, -ENOENT, or -EACCES if the user may not read one of them.
 */
static int locate(const char *dir, size_t n_dir, const char *name, char path[PATH_MAX])
{
    int err = -ENOENT;
    static const char *const places[] = {"/deltaprof", "/modules", DP_MODULE_DIR};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int beside = i < 2;
        int n = snprintf(path, PATH_MAX, "%.*s%s/%s.so", beside ? (int)n_dir : 0, dir, places[i], name);
        if (n > 0 && n < PATH_MAX && access(path, R_OK) == 0)
            return 0;
        if (n > 0 && n < PATH_MAX && errno == EACCES)
            err = -EACCES;
    }
    return err;
}

/*
 * Whether the library's function is the one that the module brought, not the host's with the same name. A library that
 * is linked into the module is hidden there, so its functions lie in the object with the table.
 */
static bool is_own_library(const struct dp_module_ops *ops)
{
    Dl_info info, module;
    if (!ops->file)
        return true;
    if (!dladdr(ops->probe, &info) || !info.dli_fname)
        return false;
    if (dladdr(ops, &module) && module.dli_fbase == info.dli_fbase)
        return true;
    const char *base = strrchr(info.dli_fname, '/');
    return strstr(base ? base : info.dli_fname, ops->file) != NULL;
}

/* Makes the allocator prepare the calling thread. The asm keeps the compiler from removing the pair. */
static void make_first_malloc(void)
{
    void *block = malloc(1);
    __asm__ volatile("" ::"r"(block) : "memory");
    free(block);
}

const void *dp_module_open(struct dp_module *module)
{
    const void *known = dp_module_opened(module);
    if (known || dp_load_acquire(&module->error))
        return known;

    if (is_static())
        return fail(module, "the program is static, and the module is not linked in");
    /* Found by dlsym: a direct call makes the linker warn in static programs. */
    __typeof__(dlopen) *open_object = (__typeof__(dlopen) *)dlsym(RTLD_DEFAULT, "dlopen");
    char self[PATH_MAX], path[PATH_MAX], symbol[64];
    if (!module->dir && !own_file(self))
        return fail(module, "the place of deltaprof's own files is not known");
    int err = module->dir ? -ENOENT * (snprintf(path, PATH_MAX, "%s/%s.so", module->dir, module->name) >= PATH_MAX)
                          : locate(self, (size_t)(strrchr(self, '/') - self), module->name, path);
    if (err)
        return fail(module, err == -EACCES ? "this user may not read the module" : "the module is not installed");
    make_first_malloc();
    void *object = open_object ? open_object(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!object)
        return fail_to_load(module);
    snprintf(symbol, sizeof symbol, "dp_module_%s", module->name);
    const struct dp_module_ops *ops = dlsym(object, symbol);
    const char *why = !ops || ops->abi != DP_MODULE_ABI ? "the module is of another version of deltaprof"
                      : !is_own_library(ops) ? "the program's own copy of the module's library answers in its place"
                                             : NULL;
    if (why) {
        dlclose(object);
        return fail(module, why);
    }
    dp_store_release(&module->ops, ops); /* [OPS] */
    return ops;
}
