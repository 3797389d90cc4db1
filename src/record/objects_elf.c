/* SPDX-License-Identifier: MIT */
/*
 * record/objects_elf.c - reads a loaded file's own headers in memory: build-id and unwind table.
 *
 * Trusts nothing: every address is checked to lie in a readable PT_LOAD segment of the object before it is read, and
 * the ELF header itself only after the kernel was asked whether the page is there. What does not fit is left out.
 *
 * Of a static program, glibc's _dl_find_object knows only the code. Its headers are where the linker says, and what
 * they say is believed: they are those of the file that this code is in.
 */
#include "record/objects.h"

#include "record/reach.h"

#include <elf.h>
#include <link.h>
#include <string.h>

enum { PHDRS_MAX = 128, NOTES_MAX = 64 };

struct headers {
    const ElfW(Phdr) * at;
    unsigned n;
    uintptr_t bias, start, end; /* segments lie between */
};

extern const ElfW(Ehdr) __ehdr_start __attribute__((weak, visibility("hidden")));

/* The readable segment around [address, address + n_bytes), as [*lo, *hi); false: there is none. */
static bool segment(const struct headers *h, uintptr_t address, size_t n_bytes, uintptr_t *lo, uintptr_t *hi)
{
    for (unsigned i = 0; i < h->n; i++) {
        const ElfW(Phdr) *p = &h->at[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_R))
            continue;
        uintptr_t start = h->bias + p->p_vaddr, end = start + p->p_filesz;
        if (end <= start || start < h->start || end > h->end)
            continue;
        if (address >= start && address < end && n_bytes <= end - address) {
            *lo = start;
            *hi = end;
            return true;
        }
    }
    return false;
}

static void read_build_id(const struct headers *h, const ElfW(Phdr) * note, struct dp_object *object)
{
    uintptr_t lo, hi, at = h->bias + note->p_vaddr;
    if (!segment(h, at, note->p_filesz, &lo, &hi))
        return;
    uintptr_t end = at + note->p_filesz;
    size_t align = note->p_align == 8 ? 8 : 4;
    for (int i = 0; i < NOTES_MAX && end - at >= sizeof(ElfW(Nhdr)); i++) {
        ElfW(Nhdr) n;
        memcpy(&n, (const void *)at, sizeof n);
        at += sizeof n;
        uint64_t name_room = ((uint64_t)n.n_namesz + align - 1) & ~(uint64_t)(align - 1);
        uint64_t desc_room = ((uint64_t)n.n_descsz + align - 1) & ~(uint64_t)(align - 1);
        if (name_room > end - at || n.n_descsz > end - at - name_room)
            return;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp((const void *)at, "GNU", 4) && n.n_descsz) {
            size_t keep = n.n_descsz < sizeof object->build_id ? n.n_descsz : sizeof object->build_id;
            memcpy(object->build_id, (const void *)(at + name_room), keep);
            object->build_id_bytes = (uint8_t)keep;
            if (keep >= sizeof object->print) {
                object->print_at = (const void *)(at + name_room);
                memcpy(object->print, object->build_id, sizeof object->print);
            }
            return;
        }
        if (desc_room > end - at - name_room)
            return;
        at += name_room + desc_room;
    }
}

/* The binary search table that every linker writes: version 1, pointers relative, entries {sdata4, sdata4} to the
 * header. */
static void read_unwind_table(const struct headers *h, const ElfW(Phdr) * eh, struct dp_object *object)
{
    uintptr_t lo, hi, hdr = h->bias + eh->p_vaddr;
    if ((const void *)hdr != object->eh_frame_hdr || !segment(h, hdr, eh->p_filesz, &lo, &hi) || eh->p_filesz < 12)
        return;
    unsigned char enc[4];
    int32_t eh_frame;
    uint32_t n;
    memcpy(enc, (const void *)hdr, 4);
    memcpy(&eh_frame, (const void *)(hdr + 4), 4);
    memcpy(&n, (const void *)(hdr + 8), 4);
    if (enc[0] != 1 || enc[1] != 0x1b || enc[2] != 0x03 || enc[3] != 0x3b || hdr % 4 ||
        (uint64_t)n * 8 > eh->p_filesz - 12)
        return;
    if (!segment(h, hdr + 4 + (intptr_t)eh_frame, 4, &lo, &hi))
        return;
    if (!object->print_at) {
        object->print_at = (const void *)(hdr + 4);
        memcpy(object->print, object->print_at, sizeof object->print);
    }
    object->fde_table = (const int32_t *)(hdr + 12);
    object->n_fdes = n;
    object->cfi_start = lo;
    object->cfi_end = hi;
}

bool dp_object_read(struct dp_object *object)
{
    ElfW(Ehdr) elf;
    struct headers h = {.bias = object->bias, .start = object->start, .end = object->end};
    if ((uintptr_t)dp_object_read - object->start < object->end - object->start &&
        (uintptr_t)&__ehdr_start < object->start && &__ehdr_start) {
        h.start = (uintptr_t)&__ehdr_start;
        h.end = UINTPTR_MAX;
    }
    if (h.end - h.start < sizeof elf || !dp_reach_probe(h.start))
        return false;
    memcpy(&elf, (const void *)h.start, sizeof elf);
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        elf.e_phentsize != sizeof(ElfW(Phdr)) || elf.e_phnum > PHDRS_MAX || elf.e_phoff % 8 || elf.e_phoff > 4096 ||
        elf.e_phoff + elf.e_phnum * sizeof(ElfW(Phdr)) > h.end - h.start)
        return false;
    uintptr_t last = h.start + elf.e_phoff + elf.e_phnum * sizeof(ElfW(Phdr));
    for (uintptr_t page = h.start; page < last; page += 4096)
        if (!dp_reach_probe(page))
            return false;
    h.at = (const ElfW(Phdr) *)(h.start + elf.e_phoff);
    h.n = elf.e_phnum;
    for (unsigned i = 0; i < h.n; i++) {
        if (h.at[i].p_type == PT_NOTE && !object->build_id_bytes)
            read_build_id(&h, &h.at[i], object);
        else if (h.at[i].p_type == PT_GNU_EH_FRAME)
            read_unwind_table(&h, &h.at[i], object);
    }
    return true;
}
