/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/bare_code.c - finds the caller's frame of code without unwind data, by following its instructions to the
 * return. What an instruction does is told by bare_code_x86.c and bare_code_arm.c.
 *
 * musl's libc has no unwind data. Without a rule for it, a stack would end at each callback (qsort), at each
 * allocation that libc makes for its caller (strdup), and at each interrupted memcpy.
 *
 * A function's code tells how it returns: from any instruction on, every path to a `ret` takes off the stack exactly
 * what is on it. So the path to one `ret` is enough. The sum of its changes to sp gives the CFA, and a `pop %rbp` or an
 * `ldp x29, x30` gives the places of the caller's frame pointer and of the return address. The path follows jumps,
 * passes calls and conditional jumps, and returns to the other side of a conditional jump if it comes to an end: an
 * unknown instruction, a call of a function that never returns, code that it has seen. Two places are tried last.
 * Behind a jump through a register lies a case of the same switch, or, on x86_64, another function, if it is the last
 * call of its function; there the stack is as at that one's begin. Padding behind a call aligns a loop, or the call
 * does not return.
 *
 * A path may have gone on into another function, behind a call of one that never returns. On x86_64 functions of libc
 * that never return are known by name, and a path from a return address is none if it does not lead to a stack pointer
 * that is a multiple of 16; interrupted code is first followed without a call, in other files only so. On aarch64 a
 * call overwrites the link register: behind it a function must load that register before it stores it or returns, and
 * another function does the opposite. That needs no names, so the code of each file is followed. Of 1.3 million
 * instructions of libc, libstdc++ and libcrypto that have unwind data, none gave another caller; 1 in 20 gave none.
 *
 * Only the few instructions that move sp matter, and those that load the two registers. Those that are not known end a
 * path.
 */
#include "host/unwind/bare_code.h"

#include "base/mem.h"
#include "host/objects/loader.h"
#include "host/objects/reach.h"
#include "host/unwind/bare_code_path.h"

#include <string.h>

bool dp_bare_code_can_read(struct dp_bare_code_path *path, uintptr_t pc, uintptr_t n_bytes)
{
    if (pc < path->code->start || pc >= path->code->end || path->code->end - pc < n_bytes)
        return false;
    uintptr_t first = dp_page_floor(pc), last = dp_page_floor(pc + n_bytes);
    if (first != path->first_page && first != path->last_page && !dp_reach_probe(first))
        return false;
    if (last != first && last != path->first_page && last != path->last_page && !dp_reach_probe(last))
        return false;
    path->first_page = first;
    path->last_page = last;
    return true;
}

/* Whether this is the first visit. */
static bool see(struct dp_bare_code_path *path, uintptr_t pc)
{
    for (uint32_t i = 0; i < path->n_seen; i++)
        if (path->seen[i] == pc)
            return false;
    if (path->n_seen == DP_BARE_CODE_SEEN)
        return false;
    path->seen[path->n_seen++] = pc;
    return true;
}

bool dp_bare_code_never_returns(const struct dp_bare_code *code, uintptr_t function)
{
    for (uint32_t i = 0; i < code->n_ends; i++)
        if (code->ends[i] == function)
            return true;
    return false;
}

enum dp_bare_code_next dp_bare_code_jump(struct dp_bare_code_path *path, uintptr_t target)
{
    path->at.pc = target;
    bool is_end = dp_bare_code_never_returns(path->code, target) || !see(path, target);
    return is_end ? DP_BARE_CODE_ENDS : DP_BARE_CODE_GOES_ON;
}

enum dp_bare_code_next dp_bare_code_branch(struct dp_bare_code_path *path, uintptr_t target)
{
    if (path->n_others < DP_BARE_CODE_OTHERS) {
        path->others[path->n_others] = path->at;
        path->others[path->n_others++].pc = target;
    }
    return DP_BARE_CODE_GOES_ON;
}

enum dp_bare_code_next dp_bare_code_put_off(struct dp_bare_code_path *path)
{
    if (path->n_last < DP_BARE_CODE_LAST)
        path->last[path->n_last++] = path->at;
    return DP_BARE_CODE_ENDS;
}

enum dp_bare_code_end dp_bare_code_follow(const struct dp_bare_code *code, uintptr_t pc, bool is_caller,
                                          struct dp_cfi_row *row)
{
    struct dp_bare_code_path path = {.code = code, .at = {.pc = pc, .lost_link = is_caller}, .behind_call = is_caller};
    enum dp_bare_code_next next;
    do {
        do
            next = path.n_steps++ < DP_BARE_CODE_STEPS ? dp_bare_code_step(&path) : DP_BARE_CODE_ENDS;
        while (next == DP_BARE_CODE_GOES_ON);
        if (next == DP_BARE_CODE_RETURNS_HERE && is_caller && !dp_bare_code_is_callers(&path.at))
            next = DP_BARE_CODE_ENDS;
        while (next == DP_BARE_CODE_ENDS && (path.n_others || path.n_last) && path.n_steps < DP_BARE_CODE_STEPS) {
            path.at = path.n_others ? path.others[--path.n_others] : path.last[--path.n_last];
            path.behind_call = false;
            if (see(&path, path.at.pc))
                next = DP_BARE_CODE_GOES_ON;
        }
    } while (next == DP_BARE_CODE_GOES_ON);
    if (next != DP_BARE_CODE_RETURNS_HERE)
        return DP_BARE_CODE_UNKNOWN;
    dp_bare_code_fill(&path.at, row);
    return DP_BARE_CODE_RETURNS;
}

static struct dp_bare_code of_libc; /* empty: libc has unwind data */

bool dp_bare_code_find(uintptr_t pc, bool is_caller, struct dp_cfi_row *row)
{
    if (pc - of_libc.start >= of_libc.end - of_libc.start)
        return false;
    if (dp_bare_code_find_in(of_libc.start, of_libc.end, pc, is_caller, row))
        return true;
    *row = (struct dp_cfi_row){.start = pc, .next = UINT64_MAX};
    if (dp_bare_code_follow(&of_libc, pc, is_caller, row) == DP_BARE_CODE_RETURNS)
        return true;
    row->ra.how = DP_SAVED_UNDEFINED;
    return is_caller;
}

bool dp_bare_code_find_in(uintptr_t start, uintptr_t end, uintptr_t pc, bool is_caller, struct dp_cfi_row *row)
{
#if defined(__x86_64__)
    if (is_caller)
        return false;
#endif
    struct dp_bare_code code = {.start = start, .end = end, .is_sure = true};
    *row = (struct dp_cfi_row){.start = pc, .next = UINT64_MAX};
    return dp_bare_code_follow(&code, pc, is_caller, row) == DP_BARE_CODE_RETURNS;
}

#ifdef __GLIBC__

void dp_bare_code_init(void) {}

#else

#include <dlfcn.h>

static int enter(struct dl_phdr_info *info, size_t n_bytes, void *unused)
{
    struct dp_loaded loaded;
    if (dp_loader_measure(info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr, &loaded) &&
        of_libc.ends[0] - loaded.start < loaded.end - loaded.start) {
        of_libc.start = loaded.start;
        of_libc.end = loaded.end;
    }
    return 0;
}

void dp_bare_code_init(void)
{
    static const char *const names[] = {"exit",    "_exit",        "_Exit",     "quick_exit",    "abort",
                                        "longjmp", "pthread_exit", "thrd_exit", "__assert_fail", "__stack_chk_fail"};
    void *libc = of_libc.end ? NULL : dlopen("libc.so", RTLD_LAZY | RTLD_NOLOAD); /* the loader is libc itself */
    for (size_t i = 0; libc && i < sizeof names / sizeof *names; i++) {
        uintptr_t function = (uintptr_t)dlsym(libc, names[i]);
        if (function)
            of_libc.ends[of_libc.n_ends++] = function;
    }
    if (of_libc.n_ends)
        dl_iterate_phdr(enter, NULL);
}

#endif
