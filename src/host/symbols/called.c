/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/called.c - decodes the call instruction before a return address. The object may be unloaded at any time,
 * so the kernel copies the code; where it may not, no function is found.
 *
 * A function that was called but has no frame came to the hook by a jump. That is believed only if the jump is found in
 * its code: a runtime may leave functions out of the stacks that it reports. The code reaches to the next function in
 * the unwind table. It is not disassembled: the bytes of a jump are searched at every place where one may begin; a jump
 * that leads to a hook by chance does not occur.
 */
#include "host/symbols/called.h"

#include "base/mem.h"
#include "host/symbols/outside.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static bool copy(uintptr_t address, void *to, size_t n_bytes)
{
    if (dp_symbols_outside.is_on)
        return false;
    int saved = errno;
    struct iovec here = {to, n_bytes}, there = {(void *)address, n_bytes};
    pid_t self = (pid_t)syscall(SYS_gettid); /* the main thread may have left, and has no memory then */
    bool copied = syscall(SYS_process_vm_readv, self, &here, 1UL, &there, 1UL, 0UL) == (long)n_bytes;
    errno = saved;
    return copied;
}

#if defined(__x86_64__)
static uintptr_t displaced(uintptr_t end, const uint8_t *bytes)
{
    int32_t distance;
    memcpy(&distance, bytes, sizeof distance);
    return end + (uintptr_t)(intptr_t)distance;
}

/* The target of a call that names it, directly or by a word of its file, and returns to an address; 0: it is none. */
static uintptr_t target(uintptr_t returns)
{
    uint8_t call[6];
    uintptr_t to;
    if (!copy(returns - sizeof call, call, sizeof call))
        return 0;
    if (call[1] == 0xe8)
        return displaced(returns, call + 2);
    return call[0] == 0xff && call[1] == 0x15 && copy(displaced(returns, call + 2), &to, sizeof to) ? to : 0;
}

enum { JUMP_STEP = 1, JUMP_BYTES = 6 };

/* The target of a jump that stands at an address, whose bytes are code; 0: there is none. */
static uintptr_t jump(uintptr_t at, const uint8_t *code)
{
    uintptr_t to;
    if (code[0] == 0xe9) /* jmp */
        return displaced(at + 5, code + 1);
    if (code[0] == 0x0f && (code[1] & 0xf0) == 0x80) /* jcc */
        return displaced(at + 6, code + 2);
    if (code[0] == 0xeb || (code[0] & 0xf0) == 0x70) /* the same, near */
        return at + 2 + (uintptr_t)(intptr_t)(int8_t)code[1];
    if (code[0] == 0xff && code[1] == 0x25) /* jmp *(rip) */
        return copy(displaced(at + 6, code + 2), &to, sizeof to) ? to : 0;
    return 0;
}

/* The word that holds the address of the function behind an entry of a procedure linkage table; 0: it is no entry. */
static uintptr_t linked_at(uintptr_t entry)
{
    static const uint8_t endbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    uint8_t code[11];
    size_t at = 0;
    if (!copy(entry, code, sizeof code))
        return 0;
    at += memcmp(code, endbr, sizeof endbr) ? 0 : sizeof endbr;
    at += code[at] == 0xf2;                                                                         /* bnd */
    return code[at] == 0xff && code[at + 1] == 0x25 ? displaced(entry + at + 6, code + at + 2) : 0; /* jmp *(rip) */
}
#elif defined(__aarch64__)
static uintptr_t target(uintptr_t returns)
{
    uint32_t call;
    if (!copy(returns - sizeof call, &call, sizeof call) || call >> 26 != 0x25) /* bl */
        return 0;
    return returns - 4 + (uintptr_t)((int64_t)((uint64_t)call << 38) >> 38) * 4;
}

enum { JUMP_STEP = 4, JUMP_BYTES = 4 };

static uintptr_t jump(uintptr_t at, const uint8_t *code)
{
    uint32_t branch;
    memcpy(&branch, code, sizeof branch);
    return branch >> 26 == 0x05 ? at + (uintptr_t)((int64_t)((uint64_t)branch << 38) >> 38) * 4 : 0; /* b */
}

static uintptr_t linked_at(uintptr_t entry)
{
    uint32_t code[3];
    if (!copy(entry, code, sizeof code))
        return 0;
    unsigned at = code[0] == 0xd503245f; /* bti c */
    if ((code[at] & 0x9f00001f) != 0x90000010 || (code[at + 1] & 0xffc003ff) != 0xf9400211)
        return 0; /* adrp x16; ldr x17, [x16, #n] */
    uint64_t pages = (uint64_t)(code[at] >> 5 & 0x7ffff) << 2 | (code[at] >> 29 & 3);
    return (((entry + 4 * at) & ~(uintptr_t)4095) + (uintptr_t)((int64_t)(pages << 43) >> 31)) +
           (code[at + 1] >> 10 & 0xfff) * 8;
}
#else
enum { JUMP_STEP = 1, JUMP_BYTES = 1 };

static uintptr_t jump(uintptr_t at, const uint8_t *code)
{
    (void)at, (void)code;
    return 0;
}

static uintptr_t target(uintptr_t returns)
{
    (void)returns;
    return 0;
}

static uintptr_t linked_at(uintptr_t entry)
{
    (void)entry;
    return 0;
}
#endif

/* The loaded object at an address; of two that had the same range the younger one. 0: none. */
static dp_object_id object_at(uintptr_t address)
{
    for (dp_object_id id = dp_objects_count(); id-- > 1;) {
        const struct dp_object *object = dp_object_get(id);
        if (dp_load_relaxed(&object->ready) && !dp_load_relaxed(&object->retired) && address >= object->start &&
            address < object->end)
            return id;
    }
    return 0;
}

/* The function that is called at an address: itself, or behind its entry of a procedure linkage table. */
static uintptr_t resolve(uintptr_t to)
{
    uintptr_t word = to ? linked_at(to) : 0;
    return !word ? to : copy(word, &to, sizeof to) ? to : 0;
}

static uintptr_t function_called(dp_frame_id id)
{
    const struct dp_frame *frame = dp_frame_get(id);
    if (id < DP_FRAME_FIRST_REAL || frame->type != DP_FRAME_CODE || !frame->object ||
        dp_load_relaxed(&dp_object_get(frame->object)->retired))
        return 0;
    return resolve(target((uintptr_t)frame->pc + 1));
}

dp_frame_id dp_symbols_called_by(dp_frame_id id)
{
    uintptr_t to = function_called(id);
    dp_object_id object = to ? object_at(to) : 0;
    return object ? dp_frame_intern_in(object, to) : 0;
}

/* ---- jumps to hooks --------------------------------------------------------------------------------------------- */

enum { CODE_MAX = 4096, LEVELS = 2, NO_TAIL = 1 };

static _Atomic uintptr_t hook;               /* relaxed: stored before other threads run */
static _Atomic(_Atomic dp_frame_id *) tails; /* by leaf: its tail, NO_TAIL, or 0: not looked at. [TAILS] */

void dp_symbols_called_hooks_at(uintptr_t address)
{
    dp_store_relaxed(&hook, address);
}

/* The hooks' object; NULL: it is the program itself, whose other functions are not told from hooks. */
static const struct dp_object *hooks_object(void)
{
    uintptr_t at = dp_load_relaxed(&hook);
    dp_object_id id = at ? dp_object_find(at) : 0;
    const struct dp_object *object = id ? dp_object_get(id) : NULL;
    return object && *dp_object_name(object) ? object : NULL;
}

void dp_symbols_called_learn(void)
{
    hooks_object();
}

static bool is_in(const struct dp_object *object, uintptr_t address)
{
    return address - object->start < object->end - object->start;
}

/* The bytes from the begin of a function to the next one; 0: none begins there. */
static size_t function_bytes(const struct dp_object *object, uintptr_t at)
{
    uintptr_t hdr = (uintptr_t)object->eh_frame_hdr, from = (uintptr_t)object->fde_table;
    uint32_t lo = 0, hi = hdr && from ? object->n_fdes : 0;
    int32_t fde[4]; /* {pc, fde} of two functions */
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (!copy(from + (size_t)middle * 8, fde, 8))
            return 0;
        if (hdr + (uintptr_t)(intptr_t)fde[0] < at)
            lo = middle + 1;
        else
            hi = middle;
    }
    if (!hdr || lo >= object->n_fdes || !copy(from + (size_t)lo * 8, fde, lo + 1 < object->n_fdes ? 16 : 8) ||
        hdr + (uintptr_t)(intptr_t)fde[0] != at)
        return 0;
    uintptr_t end = lo + 1 < object->n_fdes ? hdr + (uintptr_t)(intptr_t)fde[2] : object->end;
    return end - at < CODE_MAX ? end - at : CODE_MAX;
}

/* Whether the function at an address jumps to a hook, or to a function that does. */
static bool jumps_to(const struct dp_object *hooks, uintptr_t function, unsigned level)
{
    uint8_t code[CODE_MAX + JUMP_BYTES] = {0};
    dp_object_id id = object_at(function);
    size_t n = id ? function_bytes(dp_object_get(id), function) : 0;
    if (!n || !copy(function, code, n))
        return false;
    for (size_t i = 0; i < n; i += JUMP_STEP) {
        uintptr_t to = jump(function + i, code + i);
        if (!to || to - function < n)
            continue;
        if (is_in(dp_object_get(id), to))
            to = resolve(to);
        if (is_in(hooks, to) || (to && level > 1 && jumps_to(hooks, to, level - 1)))
            return true;
    }
    return false;
}

static dp_frame_id find_tail(dp_frame_id leaf)
{
    const struct dp_object *hooks = hooks_object();
    uintptr_t function = hooks ? function_called(leaf) : 0;
    if (!function || is_in(hooks, function) || !jumps_to(hooks, function, LEVELS))
        return 0;
    return dp_frame_intern_in(object_at(function), function);
}

dp_frame_id dp_symbols_called_tail(dp_frame_id leaf)
{
    _Atomic dp_frame_id *known = dp_load_acquire(&tails); /* [TAILS] zeros, when it is seen */
    if (!known && dp_load_relaxed(&hook)) {
        size_t n_bytes = dp_frames_capacity() * sizeof *known;
        _Atomic dp_frame_id *fresh = dp_mem_map(n_bytes);
        if (fresh && dp_cas_publish(&tails, &known, fresh)) /* [TAILS] */
            known = fresh;
        else
            dp_mem_unmap(fresh, n_bytes);
    }
    if (!known || leaf < DP_FRAME_FIRST_REAL)
        return 0;
    dp_frame_id tail = dp_load_relaxed(&known[leaf]);
    if (!tail) {
        tail = find_tail(leaf);
        dp_store_relaxed(&known[leaf], tail ? tail : NO_TAIL);
    }
    return tail == NO_TAIL ? 0 : tail;
}
