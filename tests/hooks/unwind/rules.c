/* SPDX-License-Identifier: MIT */
/*
 * rules.c - checks for every row of every FDE of the given files that the profiler's rule equals the one that elfutils
 * computes from the same table.
 *
 * usage: rules FILE... Prints for each file the number of addresses checked, and the percentages that have a rule, need
 * libunwind, and end the stack. A row is valid for a range of addresses; the first, the second and the last one are
 * checked, and every address of a PLT entry. Exit 1: a rule differs. 77: no file could be opened.
 */
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/unwind/rule.h"

struct tally {
    uint64_t bytes, said, ends, signals, foreign, none, compared, differ;
};

/* Maps the file's segments as the loader would. */
static char *load(Elf *elf, const char *file, size_t *n_bytes)
{
    size_t n;
    elf_getphdrnum(elf, &n);
    GElf_Addr top = 0, low = ~(GElf_Addr)0;
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr p;
        gelf_getphdr(elf, (int)i, &p);
        if (p.p_type == PT_LOAD) {
            top = p.p_vaddr + p.p_memsz > top ? p.p_vaddr + p.p_memsz : top;
            low = p.p_vaddr < low ? p.p_vaddr : low;
        }
    }
    low &= ~(GElf_Addr)4095;
    *n_bytes = top - low;
    char *image = mmap(NULL, *n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = open(file, O_RDONLY);
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr p;
        gelf_getphdr(elf, (int)i, &p);
        if (p.p_type == PT_LOAD && pread(fd, image + (p.p_vaddr - low), p.p_filesz, (off_t)p.p_offset) < 0)
            exit(1);
    }
    close(fd);
    return image - low; /* so that image + vaddr is the byte at vaddr */
}

static bool in_memory(Elf *elf, const char *image, struct dp_cfi *cfi, bool *has)
{
    size_t n;
    elf_getphdrnum(elf, &n);
    *has = false;
    GElf_Phdr p;
    for (size_t i = 0; i < n; i++) {
        gelf_getphdr(elf, (int)i, &p);
        if (p.p_type == PT_GNU_EH_FRAME) {
            const char *hdr = image + p.p_vaddr;
            cfi->hdr = (uintptr_t)hdr;
            cfi->fdes = (const int32_t *)(hdr + 12);
            memcpy(&cfi->n_fdes, hdr + 8, 4);
            *has = (unsigned char)hdr[3] == 0x3b;
            for (size_t k = 0; k < n; k++) {
                GElf_Phdr q;
                gelf_getphdr(elf, (int)k, &q);
                if (q.p_type == PT_LOAD && p.p_vaddr >= q.p_vaddr && p.p_vaddr < q.p_vaddr + q.p_filesz) {
                    cfi->start = (uintptr_t)image + q.p_vaddr;
                    cfi->end = cfi->start + q.p_filesz;
                }
            }
        }
    }
    return *has;
}

/* The rule that elfutils computes; DP_RULE_LIBUNWIND if no rule can express it. */
static bool same(Dwarf_Frame *frame, uint32_t rule, uintptr_t pc)
{
    Dwarf_Op *ops, mem[3];
    size_t n;
    bool signal;
    Dwarf_Addr start, end;
    int ra = dwarf_frame_info(frame, &start, &end, &signal);
    if (ra != DP_REG_RA)
        return dp_rule_kind(rule) == DP_RULE_LIBUNWIND;
    if (signal && dp_rule_kind(rule) == DP_RULE_SP_EXACT) /* the mark changes only the caller's pc */
        rule ^= dp_rule_of_kind(DP_RULE_SP ^ DP_RULE_SP_EXACT);
    else if (signal && dp_rule_kind(rule) == DP_RULE_FP_EXACT)
        rule ^= dp_rule_of_kind(DP_RULE_FP ^ DP_RULE_FP_EXACT);
    else if (signal && (dp_rule_kind(rule) == DP_RULE_SP || dp_rule_kind(rule) == DP_RULE_FP))
        return false;
    if (dwarf_frame_register(frame, DP_REG_RA, mem, &ops, &n))
        return false;
    if (n == 0 && ops == mem)
        return dp_rule_kind(rule) == DP_RULE_END;
    if (dp_rule_kind(rule) == DP_RULE_LIBUNWIND) { /* allowed only if the row has none of the common shapes */
        if (!(n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst))
            return true;
        if (dwarf_frame_cfa(frame, &ops, &n))
            return false;
        if (!(n == 1 && ops[0].atom == DW_OP_bregx && (ops[0].number == DP_REG_SP || ops[0].number == DP_REG_FP)))
            return true;
        int64_t off = (int64_t)ops[0].number2;
        if (off % 8 || off >= 1 << 21)
            return true;
        if (dwarf_frame_register(frame, DP_REG_FP, mem, &ops, &n))
            return false;
        return !((n == 0 && ops == NULL) || (n == 2 && ops[1].atom == DW_OP_plus_uconst));
    }
    if (!(n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst &&
          (int64_t)ops[1].number == -8))
        return false;
    if (dwarf_frame_register(frame, DP_REG_FP, mem, &ops, &n))
        return false;
    uintptr_t slot = 0;
    if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst)
        slot = -(uintptr_t)ops[1].number;
    else if (!(n == 0 && ops == NULL))
        return false;
    if (dp_rule_slot(rule) != slot)
        return false;
    if (dwarf_frame_cfa(frame, &ops, &n))
        return false;
    if (n == 1 && ops[0].atom == DW_OP_bregx)
        return dp_rule_kind(rule) == (ops[0].number == DP_REG_SP   ? DP_RULE_SP
                                      : ops[0].number == DP_REG_FP ? DP_RULE_FP
                                                                   : DP_RULE_LIBUNWIND) &&
               dp_rule_offset(rule) == (int64_t)ops[0].number2;
    /* the PLT's */
    return n == 9 && dp_rule_kind(rule) == DP_RULE_SP && ops[0].atom == DW_OP_breg7 && ops[0].number == 8 &&
           ops[4].atom >= DW_OP_lit0 && ops[4].atom <= DW_OP_lit15 &&
           dp_rule_offset(rule) == ((pc & 15) >= (uintptr_t)(ops[4].atom - DW_OP_lit0) ? 16 : 8);
}

static void compare(Dwarf_CFI *theirs, const struct dp_cfi *cfi, const char *image, GElf_Addr pc, struct tally *t,
                    uint32_t *rule, GElf_Addr *start, GElf_Addr *end)
{
    struct dp_cfi_row row;
    int err = dp_cfi_find(cfi, (uintptr_t)image + pc, &row);
    Dwarf_Frame *frame = NULL;
    int their = dwarf_cfi_addrframe(theirs, pc, &frame);
    t->compared++;
    *rule = dp_rule_of_kind(DP_RULE_NONE);
    *start = pc;
    *end = pc + 1;
    if (their || err <= 0) {
        if ((their != 0) != (err <= 0) && t->differ++ < 10)
            printf("  %#" PRIx64 ": ours %d, theirs %s\n", (uint64_t)pc, err, their ? dwarf_errmsg(-1) : "a row");
    } else {
        *rule = dp_rule_make(&row, (uintptr_t)pc);
        if (!same(frame, *rule, (uintptr_t)pc) && t->differ++ < 10)
            printf("  %#" PRIx64 ": rule %#x differs\n", (uint64_t)pc, *rule);
        bool signal;
        dwarf_frame_info(frame, start, end, &signal);
    }
    free(frame);
}

static void check_fde(Dwarf_CFI *theirs, const struct dp_cfi *cfi, const char *image, GElf_Addr from, GElf_Addr to,
                      struct tally *t)
{
    for (GElf_Addr pc = from; pc < to;) {
        uint32_t rule, ignored;
        GElf_Addr start, end, s, e;
        compare(theirs, cfi, image, pc, t, &rule, &start, &end);
        if (end > to || end <= pc)
            end = to;
        if (pc + 1 < end)
            compare(theirs, cfi, image, pc + 1, t, &ignored, &s, &e);
        for (GElf_Addr every = pc + 2; every + 1 < end && (end - pc <= 16 || every % 7 == 0); every++)
            compare(theirs, cfi, image, every, t, &ignored, &s, &e);
        if (pc + 2 < end)
            compare(theirs, cfi, image, end - 1, t, &ignored, &s, &e);
        uint64_t n = end - pc;
        t->bytes += n;
        switch (dp_rule_kind(rule)) {
        case DP_RULE_SP:
        case DP_RULE_FP:
            t->said += n;
            break;
        case DP_RULE_END:
            t->ends += n;
            break;
        case DP_RULE_SP_EXACT:
        case DP_RULE_FP_EXACT:
            t->signals += n;
            break;
        case DP_RULE_LIBUNWIND:
            t->foreign += n;
            break;
        default:
            t->none += n;
        }
        pc = end;
    }
}

int main(int argc, char **argv)
{
    elf_version(EV_CURRENT);
    uint64_t differ = 0;
    int opened = 0;
    printf("%-40s %10s %10s %8s %8s %8s %8s\n", "file", "bytes", "compared", "rule %", "foreign%", "end %", "differ");
    for (int i = 1; i < argc; i++) {
        int fd = open(argv[i], O_RDONLY);
        Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
        size_t n_bytes;
        if (!elf || elf_kind(elf) != ELF_K_ELF)
            continue;
        struct dp_cfi cfi = {0};
        bool has;
        char *image = load(elf, argv[i], &n_bytes);
        Dwarf_CFI *theirs = dwarf_getcfi_elf(elf);
        if (!in_memory(elf, image, &cfi, &has) || !theirs)
            continue;
        opened++;
        struct tally t = {0};
        for (uint32_t k = 0; k < cfi.n_fdes; k++) {
            GElf_Addr hdr = cfi.hdr - (uintptr_t)image;
            GElf_Addr from = hdr + (GElf_Addr)(int64_t)cfi.fdes[2 * k];
            const char *fde = (const char *)cfi.hdr + cfi.fdes[2 * k + 1];
            uint32_t range;
            memcpy(&range, fde + 12, 4);
            check_fde(theirs, &cfi, image, from, from + range, &t);
        }
        printf("%-40s %10" PRIu64 " %10" PRIu64 " %8.3f %8.4f %8.4f %8" PRIu64 "\n", argv[i], t.bytes, t.compared,
               100.0 * (double)t.said / (double)t.bytes, 100.0 * (double)t.foreign / (double)t.bytes,
               100.0 * (double)t.ends / (double)t.bytes, t.differ);
        differ += t.differ;
    }
    return differ ? 1 : opened ? 0 : 77;
}
