/* SPDX-License-Identifier: MIT */
/*
 * objects/objects_unload.c - how the table of loaded files learns that one is gone.
 *
 * The unload word counts threads between unload_begin and unload_end; CHECKING stands in it while one of them looks at
 * every object. A begin waits for that, so that no hooked dlclose runs below the check. One that no hook sees
 * still may (iconv_close), so the check reads the object's memory only through the kernel, which reports what is not
 * there. Retiring is cheap and may be wrong: an object that turns up again with its old identity gets its old id back.
 *
 * [UNLOAD] the word falls to 0 after the check. Who reads 0 there first and the generation second (acquire) has a
 * generation no older than that check: code that was loaded where something else lay before cannot run unnoticed,
 * because its loading came after the unload_begin, and so sees either the word set or what the end left.
 * [RETIRE] the generation moves (release) after `retired` is set; who reads the new one (acquire) sees what was
 * retired.
 */
#include "objects/objects.h"

#include <errno.h>
#include <sched.h>

enum { CHECK_WAITS = 10000 };
#define CHECKING (1u << 31)

static _Atomic uint32_t generation = 1;
static _Atomic uint32_t unload;
static _Atomic uint32_t doubtful; /* forked while another thread was unloading: a known range may hold something else */

static void check_all(void)
{
    dp_store_relaxed(&doubtful, 0);
    dp_loader_forget();
    bool moved = false;
    uint32_t n = dp_objects_count();
    for (dp_object_id id = 1; id < n; id++)
        moved |= dp_object_retire_if_gone(id);
    if (moved && dp_add_release(&generation, 1) == UINT32_MAX) /* [RETIRE] */
        dp_add_release(&generation, 1);
}

/* Whether to look again: a check is under way, and it was not waited for long enough. */
static bool wait_for_check(uint32_t *word, int *waits)
{
    if (!(*word & CHECKING) || (*waits)++ >= CHECK_WAITS)
        return false;
    sched_yield();
    *word = dp_load_relaxed(&unload);
    return true;
}

void dp_objects_unload_begin(void)
{
    int saved = errno, waits = 0;
    uint32_t word = dp_load_relaxed(&unload);
    while (wait_for_check(&word, &waits) || !dp_cas_acquire(&unload, &word, word + 1))
        ;
    errno = saved;
}

void dp_objects_unload_end(void)
{
    int saved = errno, waits = 0;
    uint32_t word = dp_load_relaxed(&unload), next;
    do { /* the last one checks; so does one that was forgotten at a fork */
        next = word > 1 ? word - 1 : CHECKING | 1;
    } while (wait_for_check(&word, &waits) || !dp_cas_publish(&unload, &word, next));
    if (next & CHECKING && word <= 1) {
        check_all();
        dp_sub_release(&unload, CHECKING | 1); /* [UNLOAD] */
    }
    errno = saved;
}

void dp_objects_recheck(void)
{
    dp_objects_unload_begin();
    dp_objects_unload_end();
}

void dp_objects_fork_child(void)
{
    if (!dp_load_relaxed(&unload))
        return;
    dp_store_relaxed(&doubtful, 1);
    dp_store_relaxed(&generation, dp_load_relaxed(&generation) + 1 + (dp_load_relaxed(&generation) == UINT32_MAX));
    dp_store_relaxed(&unload, 0);
}

uint32_t dp_objects_generation(void)
{
    return dp_load_acquire(&generation); /* [RETIRE] */
}

bool dp_objects_unloading(void)
{
    return dp_load_acquire(&unload) != 0; /* [UNLOAD] */
}

bool dp_objects_changing(void)
{
    return dp_objects_unloading() || dp_load_relaxed(&doubtful);
}
