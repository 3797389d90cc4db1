/* SPDX-License-Identifier: MIT */
/*
 * host/objects/loader.c - asks glibc's _dl_find_object, which takes no lock and is safe in signal handlers.
 *
 * glibc has the function since 2.35. It is declared here under its symbol name, so that a build with older headers
 * gives the same code. The reference is weak: NULL where the function is missing.
 */
#include "host/objects/loader.h"

#include "base/mem.h"

struct answer {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *map;
    void *eh_frame_hdr;
    unsigned long long rest[10];
};
extern int ask(void *address, struct answer *answer) __asm__("_dl_find_object") __attribute__((weak));

bool dp_loader_answers(void)
{
    return ask != NULL;
}

bool dp_loader_find(uintptr_t pc, struct dp_loaded *loaded)
{
    if (!ask)
        return dp_loader_scan(pc, loaded);
    struct answer answer;
    if (ask((void *)pc, &answer))
        return false;
    *loaded = (struct dp_loaded){
        .start = (uintptr_t)answer.map_start,
        .end = (uintptr_t)answer.map_end,
        .bias = answer.map ? answer.map->l_addr : 0,
        .eh_frame_hdr = answer.eh_frame_hdr,
        .name = answer.map && answer.map->l_name ? answer.map->l_name : "",
    };
    return true;
}

bool dp_loader_measure(const ElfW(Phdr) * headers, size_t n, uintptr_t bias, struct dp_loaded *loaded)
{
    uintptr_t low = UINTPTR_MAX, high = 0, hdr = 0;
    for (size_t i = 0; i < n; i++) {
        const ElfW(Phdr) *p = &headers[i];
        if (p->p_type == PT_GNU_EH_FRAME)
            hdr = p->p_vaddr;
        if (p->p_type != PT_LOAD)
            continue;
        low = p->p_vaddr < low ? p->p_vaddr : low;
        high = p->p_vaddr + p->p_memsz > high ? p->p_vaddr + p->p_memsz : high;
    }
    if (low >= high)
        return false;
    *loaded = (struct dp_loaded){
        .start = bias + dp_page_floor(low),
        .end = bias + high,
        .bias = bias,
        .eh_frame_hdr = hdr ? (const void *)(bias + hdr) : NULL,
    };
    return true;
}
