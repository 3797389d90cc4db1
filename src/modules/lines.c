/* SPDX-License-Identifier: MIT */
/*
 * modules/lines.c - the lines module: finds source lines and inlined frames in DWARF, through libdw. It is a separate
 * module because libdw loads many libraries, and only symbolize=lines needs it.
 *
 * Each file has its own Dwfl: ranges of a library and of a later one at the same address may overlap, which one Dwfl
 * would refuse. Compile units are found by their own ranges, because .debug_aranges is optional and clang leaves it
 * out. Without DWARF the symbol tables are used.
 */
#include "modules/session.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCOPED_BYTES = 8192 };

struct unit {
    Dwarf_Addr start, end; /* in the process */
    Dwarf_Die cu;
    Dwarf_Addr bias;
};

struct lines {
    Dwfl *dwfl;
    Dwfl_Module *module;
    struct unit *units; /* by start */
    size_t n_units;
    char scoped[SCOPED_BYTES]; /* names of the last lookup that were put together */
    size_t n_scoped;
};

static int by_start(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int add_unit(struct lines *file, size_t *size, const struct unit *unit)
{
    if (file->n_units == *size) {
        size_t grown = *size ? *size * 2 : 256;
        struct unit *units = realloc(file->units, grown * sizeof *units);
        if (!units)
            return -1;
        file->units = units;
        *size = grown;
    }
    file->units[file->n_units++] = *unit;
    return 0;
}

/* With -gsplit-dwarf, the file has a skeleton of the unit, and the functions are in a file of their own (.dwo). */
static Dwarf_Die with_functions(Dwarf_Die cu)
{
    Dwarf_Die split;
    uint8_t type;
    if (!dwarf_cu_info(cu.cu, NULL, &type, NULL, &split, NULL, NULL, NULL) && type == DW_UT_skeleton && split.addr)
        return split;
    return cu;
}

static void collect(struct lines *file)
{
    size_t size = 0;
    Dwarf_Addr bias;
    for (Dwarf_Die *cu = NULL; (cu = dwfl_module_nextcu(file->module, cu, &bias));) {
        Dwarf_Addr base, start, end;
        Dwarf_Die functions = with_functions(*cu);
        for (ptrdiff_t at = 0; (at = dwarf_ranges(cu, at, &base, &start, &end)) > 0;) {
            struct unit unit = {start + bias, end + bias, functions, bias};
            if (start < end && add_unit(file, &size, &unit))
                break;
        }
    }
    if (file->n_units)
        qsort(file->units, file->n_units, sizeof *file->units, by_start);
}

static struct unit *find_unit(struct lines *file, Dwarf_Addr pc)
{
    size_t lo = 0, hi = file->n_units;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (file->units[mid].start <= pc)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && pc < file->units[lo - 1].end ? &file->units[lo - 1] : NULL;
}

static const char *string_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

static int64_t number_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    dwarf_formudata(dwarf_attr_integrate(die, name, &attribute), &value);
    return (int64_t)value;
}

static const char *call_file(Dwarf_Die *cu, Dwarf_Die *inlined)
{
    Dwarf_Files *files;
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &number) ||
        dwarf_getsrcfiles(cu, &files, NULL))
        return NULL;
    return dwarf_filesrc(files, number, NULL, NULL);
}

/*
 * The DIEs around pc, innermost first, as nested in the code. dwarf_getscopes alone does not give that: at an inlined
 * function it continues with the scopes around the function's definition.
 */
static int scopes_at(Dwarf_Die *cu, Dwarf_Addr pc, Dwarf_Die **scopes)
{
    Dwarf_Die *lexical = NULL;
    int n = dwarf_getscopes(cu, pc, &lexical);
    if (n > 0)
        n = dwarf_getscopes_die(&lexical[0], scopes);
    free(lexical);
    return n;
}

/* The declaration of a function, where its scopes are those of the source. */
static Dwarf_Die declaration_of(Dwarf_Die die)
{
    static const unsigned links[] = {DW_AT_abstract_origin, DW_AT_specification};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        Dwarf_Attribute attribute;
        Dwarf_Die linked;
        if (dwarf_attr(&die, links[i], &attribute) && dwarf_formref_die(&attribute, &linked))
            die = linked;
    }
    return die;
}

static bool is_scope(int tag)
{
    return tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
           tag == DW_TAG_namespace || tag == DW_TAG_subprogram;
}

/*
 * The name of a function that has no linkage name, with its scopes: main::{lambda()}::operator(). The compiler gives
 * linkage names only to what other files may call.
 */
static const char *scoped_name(struct lines *l, Dwarf_Die *die, const char *name)
{
    Dwarf_Die declaration = declaration_of(*die), *scopes = NULL;
    char *to = l->scoped + l->n_scoped;
    size_t room = sizeof l->scoped - l->n_scoped, n = 0;
    int n_scopes = dwarf_getscopes_die(&declaration, &scopes);
    for (int i = n_scopes - 1; i > 0 && n < room; i--) {
        int tag = dwarf_tag(&scopes[i]);
        const char *scope = is_scope(tag) ? dwarf_diename(&scopes[i]) : NULL;
        if (!scope && (tag == DW_TAG_class_type || tag == DW_TAG_structure_type))
            scope = "{lambda}";
        size_t n_scope = scope ? strlen(scope) : 0;
        if (n_scope > 2 && *scope == '<' && scope[n_scope - 1] == '>') /* <lambda()>: written as demanglers do */
            n += (size_t)snprintf(to + n, room - n, "{%.*s}::", (int)n_scope - 2, scope + 1);
        else if (scope)
            n += (size_t)snprintf(to + n, room - n, "%s::", scope);
    }
    free(scopes);
    if (!n || n >= room || (n += (size_t)snprintf(to + n, room - n, "%s", name)) >= room)
        return name;
    l->n_scoped += n + 1;
    return to;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/*
 * Replaces the library's search, which would ask a debuginfod server over the network, and each profile would wait for
 * it.
 */
static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *path,
                          const char *link, GElf_Word crc, char **found)
{
    const unsigned char *build_id;
    GElf_Addr address;
    int n = dwfl_module_build_id(module, &build_id, &address);
    (void)userdata, (void)name, (void)base, (void)crc;
    return dp_elffile_find_debug(path, build_id, n > 0 ? (size_t)n : 0, link, found);
}

static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **file, Elf **elf)
{
    (void)module, (void)userdata, (void)name, (void)base, (void)file, (void)elf;
    return -1; /* not used: each module is reported with its file */
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = find_elf,
    .find_debuginfo = find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

static void close_lines(struct elffile *file)
{
    struct lines *l = file->lines;
    if (!l)
        return;
    if (l->dwfl)
        dwfl_end(l->dwfl);
    free(l->units);
    free(l);
}

static void open_lines(struct elffile *file)
{
    struct lines *l = file->lines = calloc(1, sizeof *l);
    int fd = l ? fcntl(file->parts[0].fd, F_DUPFD_CLOEXEC, 3) : -1;
    l = fd < 0 ? NULL : l;
    if (!l || !(l->dwfl = dwfl_begin(&callbacks))) {
        if (fd >= 0)
            close(fd);
        return;
    }
    dwfl_report_begin(l->dwfl);
    l->module = dwfl_report_elf(l->dwfl, "", file->path, fd, file->bias, true);
    if (!l->module)
        close(fd); /* on success the Dwfl owns it */
    if (dwfl_report_end(l->dwfl, NULL, NULL) || !l->module)
        return;
    collect(l);
}

/* ---- looking up ------------------------------------------------------------------------------------------------- */

static int lookup_lines(struct elffile *file, GElf_Addr pc, struct dp_symbol_line *lines, int max)
{
    struct unit *unit = find_unit(file->lines, pc);
    if (!unit)
        return 0;
    Dwarf_Die *scopes = NULL;
    struct lines *l = file->lines;
    l->n_scoped = 0;
    int n_scopes = scopes_at(&unit->cu, pc - unit->bias, &scopes), n = 0;
    const char *at_file = NULL;
    int at_line = 0;
    Dwarf_Line *row = dwarf_getsrc_die(&unit->cu, pc - unit->bias);
    if (row) {
        at_file = dwarf_linesrc(row, NULL, NULL);
        dwarf_lineno(row, &at_line);
    }
    for (int i = 0; i < n_scopes && n < max; i++) {
        Dwarf_Die *die = &scopes[i];
        int tag = dwarf_tag(die);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram && tag != DW_TAG_entry_point)
            continue;
        const char *name = string_of(die, DW_AT_name), *linkage = string_of(die, DW_AT_linkage_name);
        if (!linkage)
            linkage = string_of(die, DW_AT_MIPS_linkage_name);
        if (!linkage && name)
            name = scoped_name(l, die, name);
        lines[n++] = (struct dp_symbol_line){
            .name = name,
            .system_name = linkage ? linkage : name,
            .file = at_file,
            .line = at_line,
            .start_line = number_of(die, DW_AT_decl_line),
        };
        if (tag != DW_TAG_inlined_subroutine) {
            /* No call returns to the entry: it stands for the whole function, not for the code inlined there. */
            Dwarf_Addr entry;
            if (n > 1 && !dwarf_entrypc(die, &entry) && entry == pc - unit->bias) {
                lines[0] = lines[n - 1];
                n = 1;
            }
            break;
        }
        at_file = call_file(&unit->cu, die); /* the place where the next frame rootward called it */
        at_line = (int)number_of(die, DW_AT_call_line);
    }
    free(scopes);
    return n;
}

static int lookup(struct elffile *file, uintptr_t pc, struct dp_symbol_line *lines, int max)
{
    if (!file->lines)
        open_lines(file);
    int n = file->lines ? lookup_lines(file, pc, lines, max) : 0;
    return n ? n : dp_session_function(file, pc, lines);
}

static void *session_open(void)
{
    return dp_session_open(lookup, close_lines);
}

__attribute__((visibility("default"))) const struct dp_symbolize_ops dp_module_lines = {
    .base = {.abi = DP_MODULE_ABI, .file = "libdw", .probe = (const void *)dwfl_begin},
    .open = session_open,
    .close = dp_session_close,
    .add = dp_session_add,
    .lookup = dp_session_lookup,
};
