/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/shield.c - a jump out of the handler of a crash, back to where the module was called.
 *
 * The symbols lock lets one thread call modules at a time, so one buffer for the jump is enough. The caches of names
 * are not being changed during the call, so the jump leaves them whole. The module and its libraries keep no locks of
 * their own; a crash elsewhere, as in the program's malloc, is not caught.
 */
#include "host/symbols/shield.h"

#include "base/atomic.h"
#include "base/process.h"
#include "host/objects/loader.h"

#include <deltaprof/hooks.h>
#include <setjmp.h>
#include <string.h>

static struct {
    const void *_Atomic thread; /* relaxed: a thread only compares it with itself */
    jmp_buf before;
} shield;

bool dp_symbols_shield_call(void (*fn)(void *ctx), void *ctx)
{
    bool done = _setjmp(shield.before) == 0;
    if (done) {
        dp_store_relaxed(&shield.thread, &deltaprof_thread);
        dp_fence_signal();
        fn(ctx);
        dp_fence_signal();
    }
    dp_store_relaxed(&shield.thread, NULL);
    return done;
}

bool dp_symbols_shield_is_inside(void)
{
    return dp_load_relaxed(&shield.thread) == (const void *)&deltaprof_thread;
}

/* The module, the libraries of elfutils, and those that unpack files for them. */
static bool reads_files(uintptr_t pc)
{
    static const char *const names[] = {"/libelf", "/libdw", "/liblzma", "/libz", "/libbz2", "deltaprof"};
    struct dp_loaded loaded;
    bool found = dp_loader_find(pc, &loaded) && loaded.name, reads = false;
    for (size_t i = 0; found && i < sizeof names / sizeof *names; i++)
        reads |= strstr(loaded.name, names[i]) != NULL;
    return reads;
}

void dp_symbols_shield_crashed(uintptr_t pc, const sigset_t *mask)
{
    if (!dp_symbols_shield_is_inside() || !reads_files(pc))
        return;
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    _longjmp(shield.before, 1);
}

const char *dp_symbols_shield_file_at(uintptr_t *pc)
{
    struct dp_loaded loaded;
    if (!dp_loader_find(*pc, &loaded) || !loaded.name)
        return "";
    *pc -= loaded.bias;
    return loaded.name;
}

DP_IN_CHILD void dp_symbols_shield_fork_child(void)
{
    dp_store_relaxed(&shield.thread, NULL);
}
