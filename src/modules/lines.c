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
#include <errno.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCOPED_BYTES = 8192, SCOPES_MAX = 64 };
enum { ATTRIBUTE_DISCRIMINATOR = 0x2136 /* DW_AT_GNU_discriminator, which old headers lack */ };

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
    struct {
        Dwarf_Die die;
        Dwarf_Addr start, end; /* of its piece, in the file; equal: none is known */
    } function;                /* of the last lookup */
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

/* Notes the piece of a function's code that holds pc. False: none does. */
static bool note_function(struct lines *l, Dwarf_Die *die, Dwarf_Addr pc)
{
    Dwarf_Addr base, start, end;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;)
        if (pc >= start && pc < end) {
            l->function.die = *die;
            l->function.start = start;
            l->function.end = end;
            return true;
        }
    return false;
}

enum { NESTED_MOST = 32 };

/* The function around pc among what a DIE contains, also in namespaces, types and other functions. */
static bool search_function(struct lines *l, Dwarf_Die *die, Dwarf_Addr pc, int n_nested)
{
    Dwarf_Die child;
    bool found = false;
    if (n_nested == NESTED_MOST || dwarf_child(die, &child))
        return false;
    do {
        int tag = dwarf_tag(&child);
        bool is_function = tag == DW_TAG_subprogram || tag == DW_TAG_entry_point;
        found = (is_function && note_function(l, &child, pc)) || search_function(l, &child, pc, n_nested + 1);
    } while (!found && dwarf_siblingof(&child, &child) == 0);
    return found;
}

/*
 * Finds the function around pc. dwarf_getscopes reads the whole unit, which takes milliseconds for a large one; so the
 * function of the last lookup is tried first. In units that rustc wrote libdw 0.188 finds nothing for many functions.
 */
static bool find_function(struct lines *l, struct unit *unit, Dwarf_Addr pc)
{
    Dwarf_Die *lexical = NULL, *scopes = NULL;
    if (l->function.start < l->function.end && pc >= l->function.start && pc < l->function.end &&
        l->function.die.cu == unit->cu.cu)
        return true;
    int n = dwarf_getscopes(&unit->cu, pc, &lexical);
    /* At an inlined function it continues with the scopes around the function's definition. */
    if (n > 0)
        n = dwarf_getscopes_die(&lexical[0], &scopes);
    bool found = false;
    for (int i = 0; i < n && !found; i++) {
        int tag = dwarf_tag(&scopes[i]);
        if (tag == DW_TAG_subprogram || tag == DW_TAG_entry_point)
            found = note_function(l, &scopes[i], pc);
    }
    free(lexical);
    free(scopes);
    return found || search_function(l, &unit->cu, pc, 0);
}

/* The child of a DIE whose code holds pc. */
static bool find_inside(Dwarf_Die *die, Dwarf_Addr pc, Dwarf_Die *inside)
{
    Dwarf_Die child;
    if (dwarf_child(die, &child))
        return false;
    do {
        int tag = dwarf_tag(&child);
        bool may_hold = tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
                        tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
        if (may_hold && dwarf_haspc(&child, pc) > 0) {
            *inside = child;
            return true;
        }
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

/* The DIEs around pc from the innermost one to the function, as nested in the code. */
static int scopes_at(struct lines *l, struct unit *unit, Dwarf_Addr pc, Dwarf_Die scopes[SCOPES_MAX])
{
    Dwarf_Die nested[SCOPES_MAX];
    if (!find_function(l, unit, pc))
        return 0;
    int n = 1;
    nested[0] = l->function.die;
    while (n < SCOPES_MAX && find_inside(&nested[n - 1], pc, &nested[n]))
        n++;
    for (int i = 0; i < n; i++)
        scopes[i] = nested[n - 1 - i];
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

/* Whether a function has no scope but its file, so that none needs to be searched, which takes long. */
static bool is_c(Dwarf_Die *cu)
{
    int language = dwarf_srclang(cu);
    return language == DW_LANG_C || language == DW_LANG_C89 || language == DW_LANG_C99 || language == DW_LANG_C11;
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
    Dwarf_Die scopes[SCOPES_MAX];
    struct lines *l = file->lines;
    l->n_scoped = 0;
    int n_scopes = scopes_at(l, unit, pc - unit->bias, scopes), n = 0;
    const char *at_file = NULL;
    int at_line = 0;
    unsigned at_discriminator = 0;
    Dwarf_Line *row = dwarf_getsrc_die(&unit->cu, pc - unit->bias);
    if (row) {
        at_file = dwarf_linesrc(row, NULL, NULL);
        dwarf_lineno(row, &at_line);
        dwarf_linediscriminator(row, &at_discriminator);
    }
    for (int i = 0; i < n_scopes && n < max; i++) {
        Dwarf_Die *die = &scopes[i];
        int tag = dwarf_tag(die);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram && tag != DW_TAG_entry_point)
            continue;
        const char *name = string_of(die, DW_AT_name), *linkage = string_of(die, DW_AT_linkage_name);
        if (!linkage)
            linkage = string_of(die, DW_AT_MIPS_linkage_name);
        if (!linkage && name && !is_c(&unit->cu))
            name = scoped_name(l, die, name);
        lines[n++] = (struct dp_symbol_line){
            .name = name,
            .system_name = linkage ? linkage : name,
            .file = at_file,
            .line = at_line,
            .start_line = number_of(die, DW_AT_decl_line),
            .discriminator = at_discriminator,
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
        at_discriminator = (unsigned)number_of(die, ATTRIBUTE_DISCRIMINATOR);
    }
    return n;
}

static int lookup(struct elffile *file, uintptr_t pc, struct dp_symbol_line *lines, int max)
{
    if (!file->lines)
        open_lines(file);
    int n = file->lines ? lookup_lines(file, pc, lines, max) : 0;
    return n ? n : dp_session_function(file, pc, lines);
}

/* ---- ranges ----------------------------------------------------------------------------------------------------- */

/* The entry of the line table that covers pc: up to the next one at another address. */
static int find_line_range(struct unit *unit, Dwarf_Addr pc, struct dp_symbol_ranges *ranges)
{
    Dwarf_Lines *table;
    size_t n, lo = 0, hi;
    Dwarf_Addr at;
    if (dwarf_getsrclines(&unit->cu, &table, &n))
        return -ENOENT;
    for (hi = n; lo < hi;) { /* the first entry beyond pc */
        size_t mid = lo + (hi - lo) / 2;
        if (dwarf_lineaddr(dwarf_onesrcline(table, mid), &at))
            return -ENOENT;
        if (at <= pc)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!lo || lo == n)
        return -ENOENT;
    dwarf_lineaddr(dwarf_onesrcline(table, lo - 1), &at);
    ranges->line_start = at + unit->bias;
    dwarf_lineaddr(dwarf_onesrcline(table, lo), &at);
    ranges->line_end = at + unit->bias;
    return 0;
}

static int find_ranges(void *session, int handle, uintptr_t pc, struct dp_symbol_ranges *ranges)
{
    struct elffile *file = dp_session_file(session, handle);
    if (!file->lines)
        open_lines(file);
    struct unit *unit = file->lines ? find_unit(file->lines, pc) : NULL;
    struct lines *l = file->lines;
    if (!unit || !find_function(l, unit, pc - unit->bias))
        return -ENOENT;
    ranges->function_start = l->function.start + unit->bias;
    ranges->function_end = l->function.end + unit->bias;
    return find_line_range(unit, pc - unit->bias, ranges);
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
    .variable = dp_session_variable,
    .ranges = find_ranges,
};
