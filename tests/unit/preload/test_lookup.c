/* SPDX-License-Identifier: MIT */
/*
 * The look-up without the loader finds what dlsym finds, or nothing. elsewhere.c defines daemon, as libc does.
 */
#include "../../../runtime_hooks/preload/lookup.h"

#include "../../../runtime_hooks/preload/symbols.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/unit.h"

#if defined(__x86_64__)
#define VERSION(version) version
#else
#define VERSION(version) ""
#endif
#define NAME(name, result, parameters, arguments, version) #name "\0" VERSION(version) "\0"
#define ONE(name, result, parameters, arguments, version)  +1

static const char names[] = DP_SYMBOLS_MALLOC(NAME) DP_SYMBOLS_LIBC(NAME);
enum { N = 0 DP_SYMBOLS_MALLOC(ONE) DP_SYMBOLS_LIBC(ONE) };

static const char *after(const char *text)
{
    return text + strlen(text) + 1;
}

/* In the program itself, RTLD_NEXT begins behind it. */
static void *by_loader(const char *name, const char *version)
{
    return *version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
}

static bool has_sanitizer(void)
{
    return dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init");
}

TEST(what_is_found_is_what_the_loader_finds)
{
    void *found[N];
    unsigned n_found = 0;
    const char *name = names;
    dp_lookup_libc(names, N, found);
    for (size_t i = 0; i < N; i++) {
        const char *version = after(name);
        if (found[i] && found[i] != by_loader(name, version))
            fail_msg("%s@%s: %p, the loader finds %p", name, version, found[i], by_loader(name, version));
        n_found += found[i] != NULL;
        name = after(version);
    }
    printf("%u of %u found\n", n_found, (unsigned)N);
    /* An older libc is in several objects. */
    if (!has_sanitizer() && dlsym(RTLD_DEFAULT, "_dl_find_object"))
        assert_true(n_found > N * 3 / 4);
}

TEST(versions_are_told_apart)
{
#if defined(__x86_64__)
    static const char text[] = "pthread_cond_wait\0GLIBC_2.2.5\0pthread_cond_wait\0GLIBC_2.3.2\0"
                               "pthread_cond_wait\0GLIBC_2.99\0";
    void *found[3];
    if (has_sanitizer())
        skip();
    dp_lookup_libc(text, 3, found);
    if (!found[0])
        skip(); /* libpthread has them too */
    assert_ptr_equal(found[0], dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.2.5"));
    assert_ptr_equal(found[1], dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2"));
    assert_ptr_not_equal(found[0], found[1]);
    assert_null(found[2]);
#else
    skip();
#endif
}

TEST(a_name_that_another_object_defines_is_unknown)
{
    void *found[3];
    dp_lookup_libc("daemon\0\0no_such_function\0\0getpid\0\0", 3, found);
    assert_int_equal(daemon(1, 2), 3); /* it is linked */
    assert_null(found[0]);
    assert_null(found[1]);
    if (!has_sanitizer())
        assert_ptr_equal(found[2], dlsym(RTLD_NEXT, "getpid"));
}

/* time and gettimeofday: the loader calls a function of libc that selects one; x86-64 has IFUNCs of strings as well. */
TEST(an_indirect_function_is_unknown)
{
    void *found[2];
    dp_lookup_libc("memcpy\0\0strlen\0\0", 2, found);
#if defined(__x86_64__)
    assert_null(found[0]);
    assert_null(found[1]);
#endif
}

TEST(data_is_unknown)
{
    void *found[1];
    dp_lookup_libc("environ\0\0", 1, found);
    assert_null(found[0]);
}

/* elsewhere.c has daemon, too; only the range tells which one is meant. */
TEST(a_function_is_found_in_its_object_alone)
{
    uintptr_t other = (uintptr_t)dlsym(RTLD_DEFAULT, "daemon"),
              libc = (uintptr_t)dlvsym(RTLD_DEFAULT, "daemon", "GLIBC_2.2.5");
    dlerror();
    assert_ptr_equal(dp_lookup_within("daemon", other, other + 1), other);
    assert_null(dp_lookup_within("daemon", other + 1, other + 2));
    if (libc && libc != other)
        assert_ptr_equal(dp_lookup_within("daemon", libc, libc + 1), libc);
    assert_null(dp_lookup_within("no_such_function", 0, UINTPTR_MAX));
    assert_null(dlerror()); /* an error text would be memory that the next search frees */
}

static void *nothing(void *arg)
{
    return arg;
}

TEST(nothing_is_found_beside_threads)
{
    pthread_t thread;
    void *found[1] = {&found};
    assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
    dp_lookup_libc("getpid\0\0", 1, found);
    pthread_join(thread, NULL);
    assert_null(found[0]);
}

UNIT(NULL, NULL)
