/* SPDX-License-Identifier: MIT */
/*
 * Makes code at run time, which has no unwind tables, and allocates in functions that it calls. Prints its pid and the
 * address of the code. usage: victim_generated MODE. `keeps`: the code keeps a frame pointer. `moves`: it points the
 * register elsewhere into the stack. `clears`: it sets the register to 0. `map`: it keeps a frame pointer, and has a
 * name in /tmp/perf-PID.map. `registers`: it keeps no frame pointer, and has unwind tables for libgcc alone, by
 * __register_frame; `registers-fp`: both. At the end these two withdraw the tables and unmap the code. `changes`: code
 * with a larger frame takes the place of the code of `registers` at the same address, and gives it back, several times.
 * `describes`: it keeps a frame pointer, and is described to debuggers; one file of that list is gone. `hosted`: it
 * keeps no frame pointer, runs in a frame as of LuaJIT's interpreter, and is registered as LuaJIT does that;
 * `unhosted`: the same, but no Lua state says that the frame is there. These two are for x86-64 only.
 */
#include <assert.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind.h>
#include <unistd.h>

#if defined(__x86_64__)
/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
static const uint8_t keeps[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
/* push %rbp; lea 40(%rsp), %rbp; call *%rdi; pop %rbp; ret */
static const uint8_t moves[] = {0x55, 0x48, 0x8d, 0x6c, 0x24, 0x28, 0xff, 0xd7, 0x5d, 0xc3};
/* push %rbp; xor %ebp, %ebp; call *%rdi; pop %rbp; ret */
static const uint8_t clears[] = {0x55, 0x31, 0xed, 0xff, 0xd7, 0x5d, 0xc3};
/* sub $40, %rsp; call *%rdi; add $40, %rsp; ret */
static const uint8_t registers[] = {0x48, 0x83, 0xec, 0x28, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x28, 0xc3};
/* advance_loc 4; def_cfa_offset 48; advance_loc 6; def_cfa_offset 8 */
static const uint8_t cfi[] = {0x44, 0x0e, 48, 0x46, 0x0e, 8};
/* sub $104, %rsp; call *%rdi; add $104, %rsp; ret */
static const uint8_t larger[] = {0x48, 0x83, 0xec, 0x68, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x68, 0xc3};
static const uint8_t cfi_larger[] = {0x44, 0x0e, 112, 0x46, 0x0e, 8};
/* advance_loc 1; def_cfa_offset 16; offset(rbp) 2; advance_loc 3; def_cfa rbp, 16; advance_loc 3; def_cfa rsp, 8 */
static const uint8_t cfi_fp[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x43, 0x0c, 7, 8};
/* code alignment 1, data alignment -8, return address; def_cfa rsp, 8; offset(ra) 1 */
static const uint8_t cie[] = {1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1};
/*
 * push %rbp; push %rbx; push %r15; push %r14; sub $40, %rsp: the interpreter's frame. movabs $state, %rax;
 * mov %rax, 16(%rsp); mov 80(%rax), %rcx; mov %rcx, 32(%rsp); mov %rsp, 80(%rax): the state's current frame.
 * sub $96, %rsp; xor %ebp, %ebp; call *%rdi; add $96, %rsp; movabs $state, %rax; mov 32(%rsp), %rcx; mov %rcx,
 * 80(%rax); add $40, %rsp; pop %r14; pop %r15; pop %rbx; pop %rbp; ret
 */
static uint8_t hosted[] = {0x55, 0x53, 0x41, 0x57, 0x41, 0x56, 0x48, 0x83, 0xec, 0x28, 0x48, 0xb8, 0,    0,
                           0,    0,    0,    0,    0,    0,    0x48, 0x89, 0x44, 0x24, 0x10, 0x48, 0x8b, 0x48,
                           0x50, 0x48, 0x89, 0x4c, 0x24, 0x20, 0x48, 0x89, 0x60, 0x50, 0x48, 0x83, 0xec, 0x60,
                           0x31, 0xed, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x60, 0x48, 0xb8, 0,    0,    0,    0,
                           0,    0,    0,    0,    0x48, 0x8b, 0x4c, 0x24, 0x20, 0x48, 0x89, 0x48, 0x50, 0x48,
                           0x83, 0xc4, 0x28, 0x41, 0x5e, 0x41, 0x5f, 0x5b, 0x5d, 0xc3};
enum { STATE_HERE = 12, MARK_HERE = 34, STATE_THERE = 52, TABLE_HERE = 1024 };
/* "zPR": code alignment 1, data alignment -8, return address, an absolute handler, addresses relative; no rules */
static uint8_t cie_hosted[] = {1, 'z', 'P', 'R', 0, 1, 0x78, 16, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x1b};
#elif defined(__aarch64__)
/* stp x29, x30, [sp, -16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], 16; ret */
static const uint32_t keeps[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
/* add x29, sp, 40 */
static const uint32_t moves[] = {0xa9bf7bfd, 0x9100a3fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
/* mov x29, 0 */
static const uint32_t clears[] = {0xa9bf7bfd, 0xd280001d, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
/* str x30, [sp, -16]!; blr x0; ldr x30, [sp], 16; ret */
static const uint32_t registers[] = {0xf81f0ffe, 0xd63f0000, 0xf84107fe, 0xd65f03c0};
/* advance_loc 4; def_cfa_offset 16; offset(x30) 2; advance_loc 8; def_cfa_offset 0; restore(x30) */
static const uint8_t cfi[] = {0x44, 0x0e, 16, 0x9e, 2, 0x48, 0x0e, 0, 0xde};
/* str x30, [sp, -64]!; blr x0; ldr x30, [sp], 64; ret */
static const uint32_t larger[] = {0xf81c0ffe, 0xd63f0000, 0xf84407fe, 0xd65f03c0};
static const uint8_t cfi_larger[] = {0x44, 0x0e, 64, 0x9e, 8, 0x48, 0x0e, 0, 0xde};
/* advance_loc 4; def_cfa_offset 16; offset(x29) 2; offset(x30) 1; advance_loc 12; def_cfa_offset 0; restore both */
static const uint8_t cfi_fp[] = {0x44, 0x0e, 16, 0x9d, 2, 0x9e, 1, 0x4c, 0x0e, 0, 0xdd, 0xde};
/* code alignment 1, data alignment -8, return address; def_cfa sp, 0 */
static const uint8_t cie[] = {1, 0, 1, 0x78, 30, 0x0c, 31, 0};
#endif

typedef void (*callback_fn)(void);
static void (*generated)(callback_fn);
void *volatile kept[64];
static int depth;

/* ---- unwind tables ------------------------------------------------------------------------------------------------
 */

void __register_frame(void *eh_frame);
void __deregister_frame(void *eh_frame);

/* Appends a record: its length, an id, then bytes, filled up with DW_CFA_nop. Returns its end. */
static uint8_t *put(uint8_t *to, uint32_t id, const void *bytes, size_t n)
{
    uint32_t length = (uint32_t)((n + 4 + 7) & ~(size_t)7) + 4;
    memset(to, 0, 4 + length);
    memcpy(to, &length, 4);
    memcpy(to + 4, &id, 4);
    memcpy(to + 8, bytes, n);
    return to + 4 + length;
}

/* A CIE, an FDE for the code, and an end: what a JIT compiler hands to libgcc. */
static void *register_tables(void *code, uint64_t n_bytes, const void *program, size_t n)
{
    static uint8_t eh_frame[128], fde[64];
    uint8_t *at = put(eh_frame, 0, cie, sizeof cie);
    memcpy(fde, &code, 8); /* addresses are absolute: the CIE has no augmentation */
    memcpy(fde + 8, &n_bytes, 8);
    memcpy(fde + 16, program, n);
    at = put(at, (uint32_t)(at + 4 - eh_frame), fde, 16 + n);
    memset(at, 0, 4);
    __register_frame(eh_frame);
    return eh_frame;
}

/* Writes code to a page. */
static void place(void *page, const void *code, size_t n)
{
    assert(!mprotect(page, 4096, PROT_READ | PROT_WRITE));
    memcpy(page, code, n);
    assert(!mprotect(page, 4096, PROT_READ | PROT_EXEC));
    __builtin___clear_cache(page, (char *)page + n);
}

/* Puts the code of `hosted` and its table into one page; returns the table. */
static void *put_hosted(uint8_t page[4096], bool has_mark)
{
#if defined(__x86_64__)
    static uintptr_t state[16] = {0, 0x10661};
    uintptr_t at = (uintptr_t)state, handler = (uintptr_t)put_hosted;
    memcpy(&hosted[STATE_HERE], &at, 8);
    memcpy(&hosted[STATE_THERE], &at, 8);
    if (!has_mark)
        memset(&hosted[MARK_HERE], 0x90, 4);
    memcpy(&cie_hosted[10], &handler, 8);
    uint8_t bytes[4096] = {0}, *table = bytes + TABLE_HERE, *next = put(table, 0, cie_hosted, sizeof cie_hosted);
    int32_t fde[3] = {(int32_t)(bytes - next - 8), sizeof hosted};
    memcpy(bytes, hosted, sizeof hosted);
    put(next, (uint32_t)(next + 4 - table), fde, 9);
    place(page, bytes, sizeof bytes);
    return page + TABLE_HERE;
#else
    (void)page, (void)has_mark;
    exit(77);
#endif
}

/* ---- the list for debuggers (GDB manual, "JIT Compilation Interface") ---------------------------------------------
 */

struct jit_code_entry {
    struct jit_code_entry *next, *previous;
    const void *file;
    uint64_t n_bytes;
};
__attribute__((visibility("default"))) struct {
    uint32_t version, action;
    struct jit_code_entry *relevant, *first;
} __jit_debug_descriptor = {.version = 1};

/* Describes code as LLVM does: an object file whose section has the address of the code. */
static void describe(const void *code, size_t n)
{
    static const char names[] = "\0handler_of_debuggers";
    static struct {
        Elf64_Ehdr ehdr;
        Elf64_Shdr sections[4];
        Elf64_Sym symbols[2];
        char names[sizeof names];
    } file;
    file.ehdr = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_REL,
                             .e_version = EV_CURRENT,
                             .e_shoff = sizeof file.ehdr,
                             .e_ehsize = sizeof file.ehdr,
                             .e_shentsize = sizeof(Elf64_Shdr),
                             .e_shnum = 4};
    file.sections[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_addr = (uintptr_t)code - 16, .sh_size = n + 16};
    file.sections[2] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                    .sh_offset = (uint64_t)((char *)file.symbols - (char *)&file),
                                    .sh_size = sizeof file.symbols,
                                    .sh_link = 3,
                                    .sh_entsize = sizeof(Elf64_Sym)};
    file.sections[3] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = (uint64_t)((char *)file.names - (char *)&file), .sh_size = sizeof names};
    file.symbols[1] = (Elf64_Sym){
        .st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_value = 16, .st_size = n};
    memcpy(file.names, names, sizeof names);
    void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(gone != MAP_FAILED);
    static struct jit_code_entry present, unmapped;
    present = (struct jit_code_entry){NULL, &unmapped, &file, sizeof file};
    unmapped = (struct jit_code_entry){&present, NULL, gone, 4096};
    __jit_debug_descriptor.first = &unmapped;
}

static bool reached_main;
int main(int argc, char **argv);

static _Unwind_Reason_Code look_for_main(struct _Unwind_Context *context, void *unused)
{
    (void)unused;
    if (_Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context)) == (void *)main)
        reached_main = true;
    return _URC_NO_REASON;
}

/* ---- calls --------------------------------------------------------------------------------------------------------
 */

static bool tables;

__attribute__((noinline)) void inner(void)
{
    if (tables) {
        reached_main = false;
        _Unwind_Backtrace(look_for_main, NULL);
        assert(reached_main); /* the tables are right */
    }
    for (int i = 0; i < 8; i++)
        kept[depth * 8 + i] = malloc(1000);
    if (++depth < 4)
        generated(inner); /* generated code, native code, generated code */
    depth--;
}

__attribute__((noinline)) void outer(void)
{
    generated(inner);
    __asm__ volatile("");
}

static void take_turns(void *page)
{
    for (int i = 0; i < 8; i++) {
        bool is_larger = i % 2;
        place(page, is_larger ? larger : registers, is_larger ? sizeof larger : sizeof registers);
        void *registered = is_larger ? register_tables(page, sizeof larger, cfi_larger, sizeof cfi_larger)
                                     : register_tables(page, sizeof registers, cfi, sizeof cfi);
        depth = 3; /* `inner` calls no generated code itself */
        outer();
        depth = 0;
        __deregister_frame(registered);
    }
}

int main(int argc, char **argv)
{
    const void *code = keeps;
    size_t n = sizeof keeps;
    assert(argc == 2);
    if (!strcmp(argv[1], "moves")) {
        code = moves;
        n = sizeof moves;
    } else if (!strcmp(argv[1], "clears")) {
        code = clears;
        n = sizeof clears;
    } else if (!strcmp(argv[1], "registers")) {
        code = registers;
        n = sizeof registers;
    }
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(page != MAP_FAILED);
    place(page, code, n);
    memcpy(&generated, &page, sizeof page);
    void *registered = NULL;
    if (!strcmp(argv[1], "registers"))
        registered = register_tables(page, n, cfi, sizeof cfi);
    else if (!strcmp(argv[1], "registers-fp"))
        registered = register_tables(page, n, cfi_fp, sizeof cfi_fp);
    tables = registered;
    if (!strcmp(argv[1], "hosted") || !strcmp(argv[1], "unhosted")) {
        registered = put_hosted(page, !strcmp(argv[1], "hosted"));
        __register_frame(registered);
    }
    if (!strcmp(argv[1], "describes"))
        describe(page, n);
    if (!strcmp(argv[1], "map")) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
        FILE *map = fopen(path, "w");
        assert(map);
        fprintf(map, "not a line\n%lx 10 old name\n%lx %zx JS:~handler /app/file.js:12:3\nff", (long)page, (long)page,
                n);
        fclose(map);
    }
    printf("%d\n", (int)getpid());
    if (!strcmp(argv[1], "changes")) {
        take_turns(page);
        return 0;
    }
    outer();
    if (registered) {
        __deregister_frame(registered);
        munmap(page, 4096);
        tables = false;
        depth = 4;
        inner();
    }
    return 0;
}
