/* SPDX-License-Identifier: MIT */
/*
 * modules/unwind.c - the unwind module: walks through libunwind, for stacks with frames that no rule describes.
 *
 * It uses libunwind's remote interface on this process, so that libunwind asks the caller for everything: registers
 * come from the caller, memory through a reader that checks addresses, unwind tables from _dl_find_object.
 * unw_init_local and unw_backtrace would call dl_iterate_phdr, whose lock may stay locked for ever, above all in a
 * forked child. libunwind's cache is off, because it has a lock. libunwind still locks a pool of records, for a few
 * instructions with signals blocked; therefore fork waits until no walk is inside.
 *
 * At an address without unwind data libunwind would guess by frame pointers; this module ends the walk instead.
 */
#include "host/unwind/unwinder.h"

#include <errno.h>
#include <libunwind.h>
#include <string.h>

extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t, unw_word_t ip, unw_dyn_info_t *, unw_proc_info_t *,
                                              int need_unwind_info, void *arg);

static unw_addr_space_t space;

struct walk {
    const uintptr_t *registers;
    const struct dp_unwinder_process *process;
    bool no_data; /* an address without unwind data was looked up since this was last cleared */
};

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need_unwind_info, void *arg)
{
    struct walk *w = arg;
    uintptr_t hdr, fdes;
    size_t n_fdes;
    int err = -UNW_ENOINFO;
    if (w->process->find(w->process->ctx, ip, &hdr, &fdes, &n_fdes)) {
        unw_dyn_info_t table;
        memset(&table, 0, sizeof table);
        table.format = UNW_INFO_FORMAT_REMOTE_TABLE;
        table.start_ip = 0;
        table.end_ip = ~(unw_word_t)0;
        table.u.rti.segbase = hdr;
        table.u.rti.table_data = fdes;
        table.u.rti.table_len = n_fdes * 8 / sizeof(unw_word_t);
        err = UNW_OBJ(dwarf_search_unwind_table)(as, ip, &table, pi, need_unwind_info, arg);
    }
    if (err < 0)
        w->no_data = true;
    return err;
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg) {}

static int get_dyn_info_list_addr(unw_addr_space_t as, unw_word_t *address, void *arg)
{
    return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t as, unw_word_t address, unw_word_t *word, int write, void *arg)
{
    const struct walk *w = arg;
    return write || !w->process->read(w->process->ctx, address, word) ? -UNW_EINVAL : 0;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t number, unw_word_t *word, int write, void *arg)
{
    const struct walk *w = arg;
    if (number == UNW_REG_IP)
        number = DP_UNWINDER_REGS - 1;
    if (write || number < 0 || number >= DP_UNWINDER_REGS)
        return -UNW_EBADREG;
    *word = w->registers[number];
    return 0;
}

static int access_fpreg(unw_addr_space_t as, unw_regnum_t number, unw_fpreg_t *value, int write, void *arg)
{
    return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
    return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t as, unw_word_t ip, char *name, size_t n_bytes, unw_word_t *offset, void *arg)
{
    return -UNW_ENOINFO;
}

static int open_space(void)
{
    static unw_accessors_t accessors = {
        .find_proc_info = find_proc_info,
        .put_unwind_info = put_unwind_info,
        .get_dyn_info_list_addr = get_dyn_info_list_addr,
        .access_mem = access_mem,
        .access_reg = access_reg,
        .access_fpreg = access_fpreg,
        .resume = no_resume,
        .get_proc_name = no_name,
    };
    if (!space)
        space = unw_create_addr_space(&accessors, 0);
    if (!space)
        return -ENOMEM;
    unw_set_caching_policy(space, UNW_CACHE_NONE);
    return 0;
}

static size_t walk(const uintptr_t *registers, uintptr_t from_sp, struct dp_unwinder_step *steps, size_t max,
                   bool *whole, const struct dp_unwinder_process *process)
{
    struct walk w = {registers, process, false};
    unw_cursor_t cursor;
    size_t n = 0;
    *whole = false;
    if (unw_init_remote(&cursor, space, &w) < 0)
        return 0;
    for (;;) {
        unw_word_t pc, sp;
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) < 0 || unw_get_reg(&cursor, UNW_REG_SP, &sp) < 0)
            return n;
        if (!pc) {
            *whole = true;
            return n;
        }
        if (n || sp >= from_sp) {
            if (n == max)
                return n;
            steps[n++] = (struct dp_unwinder_step){pc, sp, unw_is_signal_frame(&cursor) > 0};
        }
        w.no_data = false;
        int err = unw_step(&cursor);
        /* a signal trampoline is recognized without unwind data */
        if (err < 0 || (w.no_data && unw_is_signal_frame(&cursor) <= 0))
            return n;
        if (err == 0) {
            *whole = true;
            return n;
        }
    }
}

__attribute__((visibility("default"))) const struct dp_unwinder_ops dp_module_unwind = {
    .base = {.abi = DP_MODULE_ABI, .file = "libunwind", .probe = (const void *)unw_step},
    .open = open_space,
    .walk = walk,
};
