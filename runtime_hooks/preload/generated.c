/* SPDX-License-Identifier: MIT */
/*
 * generated.c - hooks of __register_frame and __deregister_frame: a just-in-time compiler calls them to give libgcc the
 * unwind tables of generated code, and to withdraw them.
 *
 * libgcc may be loaded with the compiler, long after this object, and outside the global scope. So the real functions
 * are looked up at the first call. If the program has no libgcc and its reference is weak, the hooks only inform the
 * profiler.
 */
#include "hook.h"

typedef void frame_fn(const void *eh_frame);

static void pass_on(const char *name, frame_fn **known, const void *eh_frame)
{
    frame_fn *real = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!real) {
        real = (frame_fn *)dp_real_look_up(name);
        __atomic_store_n(known, real, __ATOMIC_RELAXED);
    }
    if (real)
        real(eh_frame);
}

DP_HOOK void __register_frame(const void *eh_frame)
{
    static frame_fn *real;
    pass_on("__register_frame", &real, eh_frame);
    deltaprof_code_registered(eh_frame);
}

DP_HOOK void __deregister_frame(const void *eh_frame)
{
    static frame_fn *real;
    deltaprof_code_withdrawn(eh_frame);
    pass_on("__deregister_frame", &real, eh_frame);
}
