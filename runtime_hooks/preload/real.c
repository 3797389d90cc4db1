/* SPDX-License-Identifier: MIT */
/*
 * real.c - finds the real function behind each hook: its next definition.
 *
 * It uses RTLD_NEXT, so that a jemalloc, tcmalloc or mimalloc of the program keeps serving it, and never __libc_malloc.
 * Each pointer first points to a resolver that finds all functions and forwards the call: ld.so calls malloc before any
 * constructor runs.
 *
 * Most functions are found without the loader (lookup.c), which gives the same answers sooner.
 *
 * During the search for the malloc group the resolvers of that group use the arena, in any thread; they do not wait,
 * because the caller may be dlsym in the searching thread. The pointers of the group are replaced together, when all
 * are known, so no block is freed by another allocator. Two threads that search at the same time store the same values.
 *
 * A search that finds nothing allocates its error text. The first call of a real function may come from an allocator
 * that holds its own lock: a jemalloc inside the program would then hang. So the common search looks only for functions
 * that every libc has; the constructor searches operator new and delete.
 *
 * Before glibc 2.34 dlsym allocates even when it succeeds. Built there, the common search calls the function below
 * dlsym, which is in no header. That function requires the loader's lock; it is called without it, because no other
 * thread can be in the loader at the first call of the process.
 *
 * The search itself calls functions such as strlen, which another object may define, and that definition may lock: then
 * a resolver is called during the search. It asks the loader for this one function and calls it, because a second
 * search would do the same again, without end.
 *
 * operator new and delete may be missing at that time: if a C program opens a C++ plugin with RTLD_LOCAL, the plugin's
 * references come to these hooks, because they are in the global scope. The functions are then searched at their first
 * call, in the loaded objects, and the object that defines them is kept loaded. That search takes the loader's lock
 * inside a hook, once. The price: a constructor that waits for a thread which is the first to call new would hang.
 */
#include "arena.h"
#include "hook.h"
#include "libc.h"
#include "lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

/* ---- the resolvers ---- */

static void find(const char *name, void **slot);
static void *find_alone(const char *name, const char *version);

#if defined(__x86_64__)
#define VERSION(version) version
#else
#define VERSION(version) ""
#endif

enum { UNRESOLVED, RESOLVING, RESOLVED };
static int state;

static bool resolving(void)
{
    return __atomic_load_n(&state, __ATOMIC_RELAXED) == RESOLVING;
}

/*
 * Each pointer to a real function begins as its resolver, which looks up all functions at once. RESOLVER(malloc, ...)
 * defines:
 *
 *     static void *first_malloc(size_t n)
 *     {
 *         if (a look-up is under way, and malloc can be found by itself)
 *             return that_malloc(n);                     dlsym may allocate
 *         dp_real_resolve();                             replaces the pointers, dp_real.malloc too
 *         return dp_real.malloc(n);
 *     }
 */
#define RESOLVER(name, result, parameters, arguments, version)                                   \
    static result first_##name parameters                                                        \
    {                                                                                            \
        __typeof__(&first_##name) alone =                                                        \
            resolving() ? (__typeof__(&first_##name))find_alone(#name, VERSION(version)) : NULL; \
        if (alone)                                                                               \
            return alone arguments;                                                              \
        dp_real_resolve();                                                                       \
        if (DP_REAL(name) == first_##name)                                                       \
            find(#name, (void **)&dp_real.name);                                                 \
        return DP_REAL(name) arguments;                                                          \
    }
DP_SYMBOLS_LIBC(RESOLVER)
DP_SYMBOLS_CXX(RESOLVER)

static void *first_malloc(size_t n)
{
    if (resolving())
        return dp_arena_alloc(0, n);
    dp_real_resolve();
    return DP_REAL(malloc)(n);
}

static void *first_calloc(size_t count, size_t size)
{
    size_t n;
    if (resolving())
        return __builtin_mul_overflow(count, size, &n) ? NULL : dp_arena_alloc(0, n);
    dp_real_resolve();
    return DP_REAL(calloc)(count, size);
}

static void *first_memalign(size_t alignment, size_t n)
{
    if (resolving())
        return dp_arena_alloc(alignment, n);
    dp_real_resolve();
    return DP_REAL(memalign)(alignment, n);
}

static void *first_realloc(void *old, size_t n)
{
    if (resolving())
        return old ? NULL : dp_arena_alloc(0, n); /* blocks of the arena do not come here */
    dp_real_resolve();
    return DP_REAL(realloc)(old, n);
}

static void first_free(void *ptr)
{
    if (resolving())
        return; /* a block of another thread; at worst it is leaked */
    dp_real_resolve();
    DP_REAL(free)(ptr);
}

#define FIRST(name, result, parameters, arguments, version) .name = first_##name,
struct dp_real dp_real = {DP_SYMBOLS_MALLOC(FIRST) DP_SYMBOLS_LIBC(FIRST) DP_SYMBOLS_CXX(FIRST)};

/* ---- the search ---- */

#define SET(slot, value) __atomic_store_n((slot), (value), __ATOMIC_RELAXED)

/* is_first: in the common search, before other code of this process can be in the loader. */
#ifndef __GLIBC__ /* musl: no versions, and a search that allocates outside the hooks */
static void *find_next(const char *name, const char *version, bool is_first)
{
    (void)is_first;
    return version ? NULL : dlsym(RTLD_NEXT, name);
}
#elif __GLIBC_PREREQ(2, 34)
static void *find_next(const char *name, const char *version, bool is_first)
{
    (void)is_first;
    return version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
}
#else
/* The functions below dlsym and dlvsym, and the one that catches their error where a function is missing. */
extern void *older_dlsym(void *handle, const char *name, const void *caller) __asm__("_dl_sym") __attribute__((weak));
extern void *older_dlvsym(void *handle, const char *name, const char *version, const void *caller) __asm__("_dl_vsym")
    __attribute__((weak));
extern int older_catch(const char **object, const char **error, bool *malloced, void (*function)(void *),
                       void *ctx) __asm__("_dl_catch_error") __attribute__((weak));

struct search {
    const char *name, *version;
    void *found;
};

static void find_past_dlsym(void *ctx)
{
    struct search *search = ctx;
    search->found = search->version ? older_dlvsym(RTLD_NEXT, search->name, search->version, (void *)find_past_dlsym)
                                    : older_dlsym(RTLD_NEXT, search->name, (void *)find_past_dlsym);
}

static void *find_next(const char *name, const char *version, bool is_first)
{
    if (!is_first || !older_dlsym || !older_dlvsym || !older_catch)
        return version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
    struct search search = {name, version, NULL};
    const char *object, *error = NULL;
    bool malloced;
    older_catch(&object, &error, &malloced, find_past_dlsym, &search);
    return error ? NULL : search.found;
}
#endif

/* Stores the next definition. Returns 1 if there is one. */
static int next(const char *name, const char *version, void **slot, bool is_first)
{
    void *real = *version ? find_next(name, version, is_first) : NULL;
    if (!real)
        real = find_next(name, NULL, is_first);
    if (real)
        SET(slot, real);
    return real != NULL;
}

static void *find_alone(const char *name, const char *version)
{
    void *real = NULL;
    next(name, version, &real, true);
    return real;
}

#define NEXT(name, result, parameters, arguments, version) \
    n_missing += !next(#name, VERSION(version), (void **)&dp_real.name, is_first);

/* The functions of libc, in the order of their pointers in dp_real: names and versions, as dp_lookup_libc takes them.
 */
#define NAME(name, result, parameters, arguments, version) #name "\0" VERSION(version) "\0"
#define ONE(name, result, parameters, arguments, version)  +1
static const char names[] = DP_SYMBOLS_MALLOC(NAME) DP_SYMBOLS_LIBC(NAME);
enum { N_MALLOC = 0 DP_SYMBOLS_MALLOC(ONE), N_LIBC = N_MALLOC DP_SYMBOLS_LIBC(ONE) };
_Static_assert(offsetof(struct dp_real, malloc) + N_LIBC * sizeof(void *) <= offsetof(struct dp_real, _Znwm), "no gap");

static const char *after(const char *name)
{
    const char *version = name + strlen(name) + 1;
    return version + strlen(version) + 1;
}

/*
 * Looks all of them up without the loader. The loader confirms the first; else this object is not where its search
 * order has a preloaded one, and the loader has to be asked for all.
 */
static void look_up_all(void *found[N_LIBC])
{
    size_t i = 0;
    const char *name = names;
    dp_lookup_libc(names, N_LIBC, found);
    for (; i < N_LIBC && !found[i]; i++)
        name = after(name);
    if (i < N_LIBC && find_next(name, NULL, true) != found[i])
        memset(found, 0, N_LIBC * sizeof *found);
    else if (i < N_LIBC && !found[0]) /* an object other than libc has a malloc */
        dp_lookup_debug(names, N_LIBC, found);
}

/* Asks the loader for those that are still unknown, from the i-th on. Returns how many it does not know. */
static int ask(const char **name, size_t i, size_t end, void *found[N_LIBC])
{
    int n_missing = 0;
    for (; i < end; i++) {
        if (!found[i])
            n_missing += !next(*name, *name + strlen(*name) + 1, &found[i], true);
        *name = after(*name);
    }
    return n_missing;
}

static void store(size_t i, size_t end, void *const found[N_LIBC])
{
    void **real = (void **)&dp_real.malloc;
    for (; i < end; i++)
        if (found[i])
            SET(&real[i], found[i]);
}

/* Not NULL if libstdc++ or libc++ is in the global scope: saves a C program twenty searches. */
extern void __cxa_throw(void) __attribute__((weak));

void dp_real_resolve(void)
{
    int saved_errno = errno;
    if (__atomic_load_n(&state, __ATOMIC_RELAXED) == RESOLVED)
        return;
    int64_t kept = deltaprof_guard_enter();
    __atomic_store_n(&state, RESOLVING, __ATOMIC_RELAXED);
    void *found[N_LIBC];
    const char *name = names;
    look_up_all(found);
    if (ask(&name, 0, N_MALLOC, found)) {
        static const char line[] = "deltaprof: the preload object stands behind libc, where it cannot work\n";
        (void)!write(STDERR_FILENO, line, sizeof line - 1);
        abort();
    }
    store(0, N_MALLOC, found);
    __atomic_store_n(&state, RESOLVED, __ATOMIC_RELAXED);
    ask(&name, N_MALLOC, N_LIBC, found);
    store(N_MALLOC, N_LIBC, found);
    deltaprof_guard_exit(kept);
    errno = saved_errno;
}

void dp_real_resolve_cxx(void)
{
    int n_missing = 0;
    bool is_first = false;
    if (!__cxa_throw)
        return;
    int64_t kept = deltaprof_guard_enter();
    DP_SYMBOLS_CXX(NEXT)
    if (n_missing)
        dlerror(); /* the program must not see errors of this search */
    deltaprof_guard_exit(kept);
}

struct dp_new dp_new;

#define HOOK(name, result, parameters, arguments, version) extern result name parameters;
DP_SYMBOLS_NEW_PLAIN(HOOK)
DP_SYMBOLS_DELETE_PLAIN(HOOK)

/* Is it a function of libstdc++, libc++ or libc++abi? */
static bool is_library(const void *function)
{
    static const char *const names[] = {"libstdc++.so", "libc++.so", "libc++abi.so"};
    Dl_info info;
    if (!dladdr(function, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/'), *base = slash ? slash + 1 : info.dli_fname;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(base, names[i], strlen(names[i])))
            return true;
    return false;
}

#define IS_ORIGINAL(name, result, parameters, arguments, version) \
    &&dp_within(self, (uintptr_t)name) && is_library((const void *)DP_REAL(name))
#define LEAD_NEW(name, result, parameters, arguments, version) \
    SET(&dp_new.name, DP_REAL(name));                          \
    SET((void **)&dp_real.name, (void *)DP_REAL(malloc));
#define LEAD_DELETE(name, result, parameters, arguments, version) SET((void **)&dp_real.name, (void *)DP_REAL(free));

/* The address of a hook, taken here, is the one that ld.so finds for the whole program. A function may be called with
 * more arguments than it takes: the first ones lie in the same registers. */
void dp_real_shorten_cxx(const struct dp_range *self)
{
    if (!__cxa_throw || !dp_within(self, (uintptr_t)malloc) || !dp_within(self, (uintptr_t)free))
        return;
    if (true DP_SYMBOLS_NEW_PLAIN(IS_ORIGINAL) DP_SYMBOLS_DELETE_PLAIN(IS_ORIGINAL)) {
        DP_SYMBOLS_NEW_PLAIN(LEAD_NEW)
        DP_SYMBOLS_DELETE_PLAIN(LEAD_DELETE)
    }
}

static bool is_libc_heap(void)
{
    return dp_arena_is_unused() && dp_within(&dp_libc, (uintptr_t)DP_REAL(malloc)) &&
           dp_within(&dp_libc, (uintptr_t)DP_REAL(calloc)) && dp_within(&dp_libc, (uintptr_t)DP_REAL(realloc)) &&
           dp_within(&dp_libc, (uintptr_t)DP_REAL(memalign)) && dp_within(&dp_libc, (uintptr_t)DP_REAL(free)) &&
           dp_within(&dp_libc, (uintptr_t)DP_REAL(aligned_alloc)) &&
           dp_within(&dp_libc, (uintptr_t)DP_REAL(posix_memalign)) &&
           dp_within(&dp_libc, (uintptr_t)malloc_usable_size);
}

unsigned dp_real_allocator(void)
{
    if (!is_libc_heap())
        return 0;
#ifdef __GLIBC__
    bool had_hooks = strverscmp(gnu_get_libc_version(), "2.34") < 0;
    return DELTAPROF_GIVES_PAGES | (had_hooks ? 0 : DELTAPROF_IS_LEAF);
#else
    return DELTAPROF_IS_LEAF;
#endif
}

/*
 * Searches the loaded objects behind this one, in their order: the object with the reference is one of them, or needs
 * one of them. An object before this one may be an interposer that found this one, such as a second copy of it: each
 * would call the other without end.
 */
static void *find_loaded(const char *name)
{
    void *found = NULL;
    bool is_behind = false;
    for (struct link_map *map = dp_libc_loader()->r_map; map && !found; map = map->l_next) {
        if (map->l_ld == _DYNAMIC)
            is_behind = true;
        void *object = is_behind && map->l_name[0] ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (!object)
            continue;
        Dl_info mine, info;
        found = dlsym(object, name);
        if (found && dladdr((void *)dp_real_resolve, &mine) && dladdr(found, &info) && mine.dli_fbase != info.dli_fbase)
            /* keeps the object loaded, because the pointer leads into it */
            dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        else
            found = NULL;
        dlclose(object);
    }
    return found;
}

void *dp_real_look_up(const char *name)
{
    int saved_errno = errno;
    int64_t kept = deltaprof_guard_enter();
    void *real = NULL;
    if (!next(name, "", &real, false)) {
        real = find_loaded(name);
        dlerror(); /* the program must not see errors of this search */
    }
    deltaprof_guard_exit(kept);
    errno = saved_errno;
    return real;
}

/*
 * Finds a function that is neither in libc nor in the global scope and stores it; if there is none, ends the process as
 * ld.so would.
 */
static void find(const char *name, void **slot)
{
    void *real = dp_real_look_up(name);
    if (!real) {
        static const char what[] = "deltaprof: symbol lookup error: undefined symbol: ";
        (void)!write(STDERR_FILENO, what, sizeof what - 1);
        (void)!write(STDERR_FILENO, name, strlen(name));
        (void)!write(STDERR_FILENO, "\n", 1);
        DP_REAL(_exit)(127);
    }
    SET(slot, real);
}
