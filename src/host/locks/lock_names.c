/* SPDX-License-Identifier: MIT */
/*
 * host/locks/lock_names.c - the table of functions that wait for futexes, and its use on the rows of a report.
 *
 * Each frame near the leaf of a futex wait, or of the wake that ended it, is looked up once and keeps its verdict for
 * ever. Hooks read the verdicts, so that from the first report on a wait for a known lock is of its kind from the
 * start. Without names (`symbolize=none`, a stripped program) every futex is of unknown kind.
 */
#include "host/locks/lock_names.h"

#include "base/glob.h"
#include "config/lock_kinds.h"
#include "host/locks/chain.h"
#include "host/locks/futex_class.h"
#include "host/table/labels.h"
#include "host/symbols/called.h"
#include "host/table/table.h"
#include "host/symbols/symbols_lock.h"
#include "host/symbols/maps.h"
#include "host/symbols/symbol.h"

#include <string.h>

/* The first match counts, after the lines of the user's own table (`lock_names`). Functions that only serve others are
 * PASS: the function that called them is asked. */
static const struct {
    const char *globs;
    unsigned verdict;
} names[] = {
    /* Rust's std, of several years */
    {"std::sys::sync::mutex::*|std::sys::*futex_mutex*|std::sys::*futex::Mutex::*", DP_LOCK_MUTEX},
    {"std::sys::sync::rwlock::*|std::sys::*futex_rwlock*|std::sys::*futex::RwLock::*", DP_LOCK_RWLOCK},
    {"std::sys::sync::condvar::*|std::sys::*futex_condvar*|std::sys::*futex::Condvar::*|std::sync::condvar::*|"
     "std::sync::poison::condvar::*",
     DP_LOCK_COND},
    {"std::sys::sync::once::*|std::sys_common::once::*|std::sync::once::*|std::sync::poison::once::*|"
     "std::sync::once_lock::*|std::sync::lazy_lock::*",
     DP_LOCK_ONCE},
    {"std::sync::barrier::*", DP_LOCK_BARRIER},
    {"std::sys::*thread_park*|std::sys_common::thread_park*|std::thread::*park*|std::thread::*Parker*|"
     "std::sync::mp?c::*",
     DP_LOCK_PARK},
    {"std::sys::*futex::futex_wa*|std::sys::futex::*", DP_LOCK_PASS},
    /* parking_lot */
    {"*parking_lot::*Mutex*|parking_lot::raw_mutex::*|parking_lot::remutex::*", DP_LOCK_MUTEX},
    {"*parking_lot::*RwLock*|parking_lot::raw_rwlock::*", DP_LOCK_RWLOCK},
    {"*parking_lot::*ondvar*", DP_LOCK_COND},
    {"*parking_lot::*nce*", DP_LOCK_ONCE},
    {"*parking_lot_core::*|*lock_api::*", DP_LOCK_PASS},
    /* libstdc++ and libc++; the first also name what calls __atomic_wait_address */
    {"__cxa_guard_*|*std::__call_once*|*std::*::__call_once*", DP_LOCK_ONCE},
    {"*semaphore*::*acquire*|*semaphore*::*release*|*std::__atomic_semaphore*", DP_LOCK_SEM},
    {"*std::latch::*|*std::barrier<*|*std::__tree_barrier*|*std::__?::latch::*|*std::__?::barrier<*|*__barrier_alg*",
     DP_LOCK_BARRIER},
    {"*std::__detail::__platform_*|*std::__detail::__waiter*|*std::__atomic_wait_address*|*std::__atomic_notify_addr*|"
     "*std::__atomic_base<*|*std::atomic<*|*std::atomic_flag::*|*std::__?::__libcpp_*|*std::__?::__cxx_atomic_*",
     DP_LOCK_PASS},
    /* abseil, and the spin locks of gperftools */
    {"*absl::*CallOnce*", DP_LOCK_ONCE},
    {"AbslInternalPerThreadSem*|*absl::*PerThreadSem*|*absl::*synchronization_internal::*|*absl::*Mutex::Block*|"
     "*absl::*Mutex::IncrementSynchSem*|*absl::*Mutex::DecrementSynchSem*|*absl::*Mutex::Wakeup*|"
     "*absl::*SpinLockWa*|AbslInternalSpinLock*",
     DP_LOCK_PASS},
    {"*absl::*Mutex::Await*|*absl::*Mutex::LockWhen*|*absl::*Mutex::ReaderLockWhen*|*absl::*CondVar::*|"
     "*absl::*Notification::*|*absl::*BlockingCounter::*|*absl::*Barrier::Block*",
     DP_LOCK_COND},
    {"*absl::*Mutex::LockSlow*|*absl::*Mutex::UnlockSlow*", DP_LOCK_MUTEX | DP_FUTEX_WEAK},
    {"*absl::*Mutex::Reader*", DP_LOCK_RWLOCK},
    {"*absl::*Mutex::*|*absl::*SpinLock::*|SpinLock::*|base::internal::SpinLock*", DP_LOCK_MUTEX},
    /* folly, GLib, Qt, Mesa, LLVM's OpenMP, Chromium's allocator */
    {"*folly::detail::futex*|*folly::detail::*Futex*|*folly::detail::MemoryIdler*", DP_LOCK_PASS},
    {"*folly::SharedMutexImpl*", DP_LOCK_RWLOCK},
    {"*folly::*DistributedMutex*|*folly::MicroLock*|*folly::detail::distributed_mutex::*", DP_LOCK_MUTEX},
    {"*folly::*LifoSem*", DP_LOCK_SEM},
    {"*folly::Baton*|*folly::*ParkingLot*", DP_LOCK_PARK},
    {"g_cond_*|_util_queue_fence_*|QWaitCondition::*", DP_LOCK_COND},
    {"QSemaphore::*", DP_LOCK_SEM},
    {"g_mutex_*|g_bit_*lock*|g_pointer_bit_*lock*|QBasicMutex::*|QMutex::*|QMutexPrivate::*|simple_mtx_*|"
     "__kmp_*_futex_lock*|*SpinningMutex::*",
     DP_LOCK_MUTEX},
    {"syscall|__wrap_syscall|g_futex_*|futex|*_futex|futex_*|sys_futex*|*futex_wait*|*futex_wake*|*futexWa*",
     DP_LOCK_PASS},
    /* of unknown kind, but a lock by its name */
    {"lock*|*_lock*|*::lock*|*Lock*|*mutex*|*Mutex*|acquire*|*_acquire*|*::acquire*", DP_LOCK_FUTEX | DP_FUTEX_HOLDS},
};

/* Copies a name without the parameters of the function; template arguments stay. */
static void cut_parameters(const char *name, char *to, size_t size)
{
    static const char anonymous[] = "(anonymous namespace)";
    size_t n = 0;
    for (int depth = 0; name[n] && n + 1 < size; n++) {
        depth += name[n] == '<' ? 1 : name[n] == '>' ? -1 : 0;
        if (name[n] == '(' && depth == 0 && strncmp(name + n, anonymous, sizeof anonymous - 1))
            break;
        to[n] = name[n];
    }
    to[n] = 0;
}

/* The verdict (futex_class.h) for a function of this name. DP_LOCK_FUTEX: the name shows no kind. */
static unsigned verdict_of(const char *name_and_parameters)
{
    char text[1024], *name = text;
    cut_parameters(name_and_parameters, text, sizeof text);
    if (*name == '<') /* of Rust's newer names: <std::sys::sync::mutex::futex::Mutex>::lock_contended */
        name++;
    enum dp_lock_kind of_user = dp_lock_kinds_find(name);
    if (of_user)
        return of_user;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dp_glob_matches(names[i].globs, name))
            return names[i].verdict;
    return DP_LOCK_FUTEX;
}

/* ---- verdicts --------------------------------------------------------------------------------------------------- */

struct asker {
    struct dp_symbols_files *files; /* NULL: only names that are known already */
    bool no_names;
    bool begun; /* modules are loaded and mappings read */
};

static bool begin(struct asker *a)
{
    if (a->begun)
        return true;
    if (a->files)
        dp_symbols_load(DP_SYMBOLIZE_FUNCTIONS);
    if (dp_symbols_lock(a->files != NULL))
        return false;
    a->begun = dp_symbols_maps_begin() == 0;
    dp_symbols_unlock();
    return a->begun;
}

/* The verdict by the frame's name; 0: not known now. */
static unsigned look_up(struct asker *a, dp_frame_id id)
{
    const struct dp_frame *frame = dp_frame_get(id);
    if (id < DP_FRAME_FIRST_REAL || frame->type != DP_FRAME_CODE)
        return DP_LOCK_FUTEX;
    if (a->no_names)
        return DP_LOCK_UNNAMED;
    if (!begin(a) || dp_symbols_lock(a->files != NULL))
        return 0;
    bool missed = false;
    uint32_t mapping = dp_symbols_maps_find(id);
    const struct dp_symbols_symbol *symbol =
        a->files ? dp_symbols_find(a->files, id, frame->pc, mapping, DP_SYMBOLIZE_FUNCTIONS)
                 : dp_symbols_cached(id, mapping, DP_SYMBOLIZE_FUNCTIONS, &missed);
    unsigned verdict = missed ? 0 : symbol ? verdict_of(symbol->lines[0].function->name) : DP_LOCK_UNNAMED;
    dp_symbols_unlock();
    return verdict;
}

/*
 * The verdict of a frame, looked up if it has none. caller: the next frame, 0: none. A part of a function that the
 * compiler put elsewhere has no name of its own in a stripped library; what the caller called has one.
 */
static unsigned learn(struct asker *a, dp_frame_id id, dp_frame_id caller)
{
    unsigned verdict = dp_futex_verdict(id) & DP_FUTEX_KIND_MASK;
    if (verdict)
        return verdict;
    verdict = look_up(a, id);
    dp_frame_id called = verdict == DP_LOCK_UNNAMED && caller && !a->no_names ? dp_symbols_called_by(caller) : 0;
    unsigned better = called ? look_up(a, called) : 0;
    if (better && (better & DP_FUTEX_KIND_MASK) != DP_LOCK_FUTEX)
        verdict = better;
    if (verdict)
        dp_futex_set_verdict(id, verdict);
    return verdict & DP_FUTEX_KIND_MASK;
}

/* Gives verdicts to the leafmost frames, up to the first one that is no lock's, and to what that one called. */
static void learn_stack(struct asker *a, const struct dp_record *record)
{
    const dp_frame_id *frames = dp_table_frames(record);
    for (unsigned i = 0; i < record->depth && i < DP_FUTEX_FRAMES; i++) {
        unsigned verdict = learn(a, frames[i], i + 1 < record->depth ? frames[i + 1] : 0);
        if (!verdict || verdict == DP_LOCK_FUTEX)
            break;
    }
    dp_frame_id called = a->no_names ? 0 : dp_symbols_called_by(frames[dp_lock_frames_inside(record)]);
    if (called)
        learn(a, called, 0);
}

/* ---- reports ---------------------------------------------------------------------------------------------------- */

void dp_lock_learn(unsigned kind, enum dp_symbolize symbolize, struct dp_symbols_files *files,
                   const struct dp_rows *rows)
{
    struct asker asker = {.files = files, .no_names = symbolize == DP_SYMBOLIZE_NONE};
    unsigned class = 0;
    for (dp_record_id id; (id = dp_futex_next_undecided(&class));)
        learn_stack(&asker, dp_table_record(DP_KIND_BLOCK, id));
    for (size_t i = 0; rows && i < rows->n; i++) {
        const struct dp_record *record = dp_table_record(kind, rows->at[i].id);
        struct dp_chain chain;
        if (!dp_labels_is_futex(record->labels))
            continue;
        if (kind != DP_KIND_CHAIN) {
            learn_stack(&asker, record);
        } else if (dp_chain_of(record, &chain)) {
            learn_stack(&asker, dp_table_record(DP_KIND_MUTEX, chain.holder));
            if (chain.waiter != DP_CHAIN_UNKNOWN)
                learn_stack(&asker, dp_table_record(DP_KIND_BLOCK, chain.waiter));
        }
    }
}

/* A function without a name is inside only if one with a name called it that is. */
unsigned dp_lock_frames_inside(const struct dp_record *record)
{
    const dp_frame_id *frames = dp_table_frames(record);
    unsigned n = 0;
    if (!dp_labels_is_futex(record->labels))
        return 0;
    for (unsigned i = 0; i + 1 < record->depth && i < DP_FUTEX_FRAMES; i++) {
        unsigned verdict = dp_futex_verdict(frames[i]) & DP_FUTEX_KIND_MASK;
        if (!verdict || verdict == DP_LOCK_FUTEX)
            break;
        if (verdict != DP_LOCK_UNNAMED)
            n = i + 1;
    }
    return n;
}

dp_frame_id dp_lock_frame_called(const struct dp_record *record)
{
    if (!dp_labels_is_futex(record->labels))
        return 0;
    dp_frame_id called = dp_symbols_called_by(dp_table_frames(record)[dp_lock_frames_inside(record)]);
    return called && (dp_futex_verdict(called) & DP_FUTEX_KIND_MASK) == DP_LOCK_FUTEX ? called : 0;
}
