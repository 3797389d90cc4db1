/* SPDX-License-Identifier: MIT */
/*
 * derived.c - hooks of functions that are defined by realloc and free.
 *
 * They call the realloc and free that the whole process calls, as libc's own do. These need not be the hooks of this
 * object: a program with a malloc inside, or an allocator that is preloaded before deltaprof, defines realloc and free,
 * and often no reallocarray. Its blocks must not reach libc's realloc. So these hooks are in a file of their own: the
 * compiler cannot replace a call of realloc by the body of the hook. The call is a jump, so a sample's stack begins at
 * the caller of reallocarray.
 */
#include "hook.h"

#include <errno.h>
#include <stdlib.h>

DP_HOOK void *reallocarray(void *old, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, n);
}

/* By definition the same as free. */
#define FREE(name, parameters)    \
    DP_HOOK void name parameters; \
    DP_HOOK void name parameters  \
    {                             \
        free(ptr);                \
    }
FREE(cfree, (void *ptr))
FREE(free_sized, (void *ptr, size_t n))
FREE(free_aligned_sized, (void *ptr, size_t alignment, size_t n))
