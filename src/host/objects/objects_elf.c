/* SPDX-License-Identifier: MIT */
/*
 * host/objects/objects_elf.c - reads the build-id and the unwind table of a loaded file from its headers in memory.
 *
 * The headers of a library are not trusted. The ELF header and the program headers are read only after the kernel
 * confirmed that their pages can be read. Other data is read only if it lies in a readable PT_LOAD segment of the file.
 * A part that is not as expected is left out.
 *
 * The segments of a main program may have gaps between them (node, static programs). Then glibc's _dl_find_object
 * returns only the range of one segment, which may lack the headers. So the kernel tells the place of the main
 * program's headers (AT_PHDR). These are trusted, because the kernel started the program by them.
 */
#include "host/objects/objects.h"

#include "base/elf_headers.h"
#include "base/mem.h"
#include "host/objects/reach.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>

enum { NOTES_MAX = 64 };

struct headers {
    const ElfW(Phdr) * at;
    unsigned n;
    uintptr_t bias, start, end; /* all segments lie in [start, end) */
};

/* Finds the readable segment [*lo, *hi) that contains [address, address + n_bytes). False: there is none. */
static bool find_segment(const struct headers *h, uintptr_t address, size_t n_bytes, uintptr_t *lo, uintptr_t *hi)
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
    if (!find_segment(h, at, note->p_filesz, &lo, &hi))
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
            if (keep >= sizeof object->fingerprint) {
                object->fingerprint_at = (const void *)(at + name_room);
                memcpy(object->fingerprint, object->build_id, sizeof object->fingerprint);
            }
            return;
        }
        if (desc_room > end - at - name_room)
            return;
        at += name_room + desc_room;
    }
}

/*
 * Reads the header of the binary search table. Only the encoding that linkers use is accepted: version 1, a relative
 * pointer, a udata4 count, entries {sdata4, sdata4} relative to the header.
 */
static void read_unwind_table(const struct headers *h, const ElfW(Phdr) * eh, struct dp_object *object)
{
    uintptr_t lo, hi, hdr = h->bias + eh->p_vaddr;
    if ((const void *)hdr != object->eh_frame_hdr || !find_segment(h, hdr, eh->p_filesz, &lo, &hi) || eh->p_filesz < 12)
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
    if (!find_segment(h, hdr + 4 + (intptr_t)eh_frame, 4, &lo, &hi))
        return;
    if (!object->fingerprint_at) {
        object->fingerprint_at = (const void *)(hdr + 4);
        memcpy(object->fingerprint, object->fingerprint_at, sizeof object->fingerprint);
    }
    object->fde_table = (const int32_t *)(hdr + 12);
    object->n_fdes = n;
    object->cfi_start = lo;
    object->cfi_end = hi;
}

/*
 * Finds the program headers by AT_PHDR. False: the object is no part of the main program. They lie inside the range
 * that they describe, unless the object has another file's bias.
 */
static bool find_headers_of_program(const struct dp_object *object, struct headers *h)
{
    struct dp_loaded whole;
    uintptr_t at = getauxval(AT_PHDR), n = getauxval(AT_PHNUM);
    if (!at || n > DP_ELF_HEADERS_MAX || !dp_loader_measure((const ElfW(Phdr) *)at, n, object->bias, &whole) ||
        at - whole.start >= whole.end - whole.start || object->start < whole.start || object->end > whole.end)
        return false;
    *h = (struct headers){(const ElfW(Phdr) *)at, (unsigned)n, object->bias, whole.start, whole.end};
    return true;
}

/* Finds the program headers by the ELF header at the object's start. False: there is no valid one. */
static bool find_headers_at_start(const struct dp_object *object, struct headers *h)
{
    ElfW(Ehdr) elf;
    if (object->end - object->start < sizeof elf || !dp_reach_probe(object->start))
        return false;
    memcpy(&elf, (const void *)object->start, sizeof elf);
    if (!dp_elf_is_ours(&elf) || elf.e_phoff % 8 || elf.e_phoff > DP_PAGE_LEAST ||
        elf.e_phoff + elf.e_phnum * sizeof(ElfW(Phdr)) > object->end - object->start)
        return false;
    uintptr_t last = object->start + elf.e_phoff + elf.e_phnum * sizeof(ElfW(Phdr));
    for (uintptr_t page = object->start; page < last; page += DP_PAGE_LEAST)
        if (!dp_reach_probe(page))
            return false;
    *h = (struct headers){(const ElfW(Phdr) *)(object->start + elf.e_phoff), elf.e_phnum, object->bias, object->start,
                          object->end};
    return true;
}

bool dp_object_read(struct dp_object *object)
{
    struct headers h;
    if (!find_headers_of_program(object, &h) && !find_headers_at_start(object, &h))
        return false;
    for (unsigned i = 0; i < h.n; i++) {
        if (h.at[i].p_type == PT_NOTE && !object->build_id_bytes)
            read_build_id(&h, &h.at[i], object);
        else if (h.at[i].p_type == PT_GNU_EH_FRAME)
            read_unwind_table(&h, &h.at[i], object);
    }
    return true;
}
