/* SPDX-License-Identifier: MIT */
/*
 * host/objects/objects_unload.c - retires objects whose file was unloaded.
 *
 * `unload` counts the threads between unload_begin and unload_end. The bit CHECKING is set in it while one of them
 * looks at every object. A begin waits until CHECKING is clear, so that no hooked dlclose runs during the check. An
 * unload without a hook (iconv_close) still may, so the check reads the object's memory only through the kernel, which
 * reports unmapped pages. Retiring is cheap and may be wrong: an object that turns up again with its old identity gets
 * its old id back.
 *
 * [UNLOAD] `unload` falls to 0 after the check (release). A thread that reads 0 (acquire) and then the generation gets
 * a generation no older than that check. So code that was loaded in the place of other code cannot run unnoticed: it
 * was loaded after the unload_begin, and its thread sees either `unload` set or the new generation.
 * [RETIRE] the generation moves (release) after `retired` is set. A thread that reads the new generation (acquire) sees
 * which objects are retired.
 */
#include "base/process.h"
#include "host/objects/objects.h"

#include <errno.h>
#include <sched.h>

enum { CHECK_WAITS = 10000 };
#define CHECKING (1u << 31)

struct dp_objects_state dp_objects_state = {.generation = 1};
/* this process was forked while another thread was unloading: a known range may hold something else */
static _Atomic uint32_t doubtful;

void dp_objects_new_generation(void)
{
    if (dp_add_release(&dp_objects_state.generation, 1) == UINT32_MAX) /* [RETIRE] */
        dp_add_release(&dp_objects_state.generation, 1);
}

static void check_all(void)
{
    dp_store_relaxed(&doubtful, 0);
    dp_loader_clear();
    bool moved = false;
    uint32_t n = dp_objects_count();
    for (dp_object_id id = 1; id < n; id++)
        moved |= dp_object_retire_if_gone(id);
    if (moved)
        dp_objects_new_generation();
}

/* Whether to look at the word again: a check is under way, and CHECK_WAITS is not used up. */
static bool wait_for_check(uint32_t *word, int *waits)
{
    if (!(*word & CHECKING) || (*waits)++ >= CHECK_WAITS)
        return false;
    sched_yield();
    *word = dp_load_relaxed(&dp_objects_state.unload);
    return true;
}

void dp_objects_unload_begin(void)
{
    int saved = errno, waits = 0;
    uint32_t word = dp_load_relaxed(&dp_objects_state.unload);
    while (wait_for_check(&word, &waits) || !dp_cas_acquire(&dp_objects_state.unload, &word, word + 1))
        ;
    errno = saved;
}

void dp_objects_unload_end(void)
{
    int saved = errno, waits = 0;
    uint32_t word = dp_load_relaxed(&dp_objects_state.unload), next;
    do { /* the last thread checks; so does a thread whose begin a fork discarded */
        next = word > 1 ? word - 1 : CHECKING | 1;
    } while (wait_for_check(&word, &waits) || !dp_cas_publish(&dp_objects_state.unload, &word, next));
    if (next & CHECKING && word <= 1) {
        check_all();
        dp_sub_release(&dp_objects_state.unload, CHECKING | 1); /* [UNLOAD] */
    }
    errno = saved;
}

void dp_objects_recheck(void)
{
    dp_objects_unload_begin();
    dp_objects_unload_end();
}

bool dp_objects_forbid_unload(void)
{
    uint32_t none = 0;
    return dp_cas_acquire(&dp_objects_state.unload, &none, CHECKING | 1);
}

void dp_objects_allow_unload(void)
{
    dp_sub_release(&dp_objects_state.unload, CHECKING | 1); /* [UNLOAD] */
}

DP_IN_CHILD void dp_objects_fork_child(void)
{
    if (!dp_load_relaxed(&dp_objects_state.unload))
        return;
    dp_store_relaxed(&doubtful, 1);
    dp_store_relaxed(&dp_objects_state.generation, dp_load_relaxed(&dp_objects_state.generation) + 1 +
                                                       (dp_load_relaxed(&dp_objects_state.generation) == UINT32_MAX));
    dp_store_relaxed(&dp_objects_state.unload, 0);
}

bool dp_objects_changing(void)
{
    return dp_objects_unloading() || dp_load_relaxed(&doubtful);
}
