/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "modules/demangle.h"
#include "host/symbols/symbol.h"
#include "support/scratch.h"

extern const struct dp_symbolize_ops dp_module_symbolize, dp_module_lines;

static uintptr_t bias;
static char top[64];

/* The functions that are looked up: a static one, of which only .symtab knows, and one that is inlined into it. */
static inline __attribute__((always_inline)) uintptr_t inlined_here(void)
{
    uintptr_t pc;
#if defined(__x86_64__)
    __asm__ volatile("lea 0(%%rip), %0" : "=r"(pc));
#else
    __asm__ volatile("adr %0, ." : "=r"(pc));
#endif
    return pc;
}

static __attribute__((noinline)) uintptr_t where_we_are(void)
{
    return inlined_here();
}

static int command(const char *format, ...)
{
    char text[PATH_MAX * 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return system(text);
}

static char self[PATH_MAX];

static int look_up(const struct dp_symbolize_ops *ops, const char *path, uintptr_t pc, struct dp_symbol_line *lines,
                   void **session)
{
    *session = ops->open();
    assert_non_null(*session);
    int handle = ops->add(*session, path, NULL, 0, bias);
    assert_int_equal(handle, 0);
    return ops->lookup(*session, handle, pc, lines, 8);
}

static void named_in(const char *path, const char *expected)
{
    const struct dp_symbolize_ops *modules[] = {&dp_module_symbolize, &dp_module_lines};
    for (int m = 0; m < 2; m++) {
        struct dp_symbol_line lines[8];
        void *session;
        int n = look_up(modules[m], path, where_we_are(), lines, &session);
        if (expected) {
            assert_true(n >= 1);
            assert_string_equal(lines[n - 1].name, expected);
        } else {
            assert_true(n == 0 || strcmp(lines[n - 1].name, "where_we_are"));
        }
        modules[m]->close(session);
    }
}

TEST(a_static_function_is_named_from_symtab)
{
    named_in(self, "where_we_are");
    named_in("/proc/self/exe", "where_we_are");
}

TEST(a_stripped_file_knows_its_exported_functions_only)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/stripped", top);
    if (command("objcopy --strip-all %s %s", self, path))
        skip();
    named_in(path, NULL);
}

TEST(a_debug_link_is_followed_if_the_build_id_agrees)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/linked", top);
    if (command(
            "cd %s && objcopy --only-keep-debug %s linked.dbg && objcopy --strip-all --add-gnu-debuglink=linked.dbg %s "
            "linked",
            top, self, self))
        skip();
    named_in(path, "where_we_are");
    assert_int_equal(command("cd %s && mkdir -p .debug && mv linked.dbg .debug/", top), 0);
    named_in(path, "where_we_are");
    assert_int_equal(command("cd %s/.debug && objcopy --remove-section=.note.gnu.build-id linked.dbg", top), 0);
    named_in(path, NULL);
}

TEST(minidebuginfo_is_unpacked)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/mini", top);
    if (command("cd %s && objcopy --only-keep-debug %s mini.dbg && strip --strip-debug -o mini.sym %s && "
                "xz -q mini.sym && objcopy --strip-all --add-section .gnu_debugdata=mini.sym.xz %s mini",
                top, self, self, self))
        skip();
    named_in(path, "where_we_are");
    /* a section that is not xz, or is cut short: no names, and no crash */
    assert_int_equal(command("cd %s && head -c 100 mini.sym.xz > bad.xz && objcopy --strip-all --add-section "
                             ".gnu_debugdata=bad.xz %s mini",
                             top, self),
                     0);
    named_in(path, NULL);
}

TEST(a_file_with_another_build_id_is_refused)
{
    void *session = dp_module_symbolize.open();
    static const uint8_t other[20] = {1, 2, 3};
    assert_int_equal(dp_module_symbolize.add(session, self, other, sizeof other, bias), -ESTALE);
    assert_int_equal(dp_module_symbolize.add(session, "/no/such/file", NULL, 0, bias), -ENOENT);
    assert_int_equal(dp_module_symbolize.add(session, "/dev/null", NULL, 0, bias), -ENOEXEC);
    assert_int_equal(dp_module_symbolize.add(session, "/etc/passwd", NULL, 0, bias), -ENOEXEC);
    dp_module_symbolize.close(session);
}

TEST(damaged_files_are_survived)
{
    char path[PATH_MAX];
    static unsigned char whole[8 << 20];
    FILE *in = fopen(self, "rb");
    size_t n = fread(whole, 1, sizeof whole, in);
    fclose(in);
    snprintf(path, sizeof path, "%s/damaged", top);
    uint64_t seed = 42;
    for (int turn = 0; turn < 60; turn++) {
        FILE *out = fopen(path, "wb");
        size_t keep = turn % 3 ? n : n * (size_t)turn / 60;
        fwrite(whole, 1, keep, out);
        for (int k = 0; k < 200; k++) { /* headers at both ends, and anywhere */
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t at = k % 2 ? (seed >> 20) % n : k % 4 ? (seed >> 20) % 1024 : n - 1 - (seed >> 20) % 4096;
            if (at < keep && turn % 3) {
                fseek(out, (long)at, SEEK_SET);
                fputc((int)(seed >> 56), out);
            }
        }
        fclose(out);
        void *session = dp_module_symbolize.open();
        struct dp_symbol_line lines[8];
        int handle = dp_module_symbolize.add(session, path, NULL, 0, bias);
        if (handle >= 0)
            dp_module_symbolize.lookup(session, handle, where_we_are(), lines, 8);
        dp_module_symbolize.close(session);
    }
}

TEST(lines_show_what_was_inlined)
{
    struct dp_symbol_line lines[8];
    void *session;
    int n = look_up(&dp_module_lines, self, where_we_are() - 1, lines, &session);
    if (n < 2 || !lines[0].file) /* built without debug information */
        skip();
    assert_int_equal(n, 2);
    assert_string_equal(lines[0].name, "inlined_here");
    assert_string_equal(lines[1].name, "where_we_are");
    for (int i = 0; i < 2; i++) {
        const char *slash = strrchr(lines[i].file, '/');
        assert_string_equal(slash ? slash + 1 : lines[i].file, "test_symbolize.c");
        assert_true(lines[i].start_line > 0 && lines[i].line >= lines[i].start_line);
    }
    assert_true(lines[1].line > lines[0].line);
    dp_module_lines.close(session);
}

/* -gsplit-dwarf leaves the functions in a .dwo file beside the library. */
TEST(lines_of_split_debug_information)
{
    char path[96];
    struct dp_symbol_line lines[8];
    Dl_info info;
    int n = 0;
    (void)state;
    assert_int_equal(command("cd %s && echo 'int getpid(void); static inline __attribute__((always_inline)) int in(int "
                             "*a) { return *a * getpid(); } "
                             "int out(int *a) { return in(a) + 1; }' > split.c && "
                             "cc -O2 -g -gsplit-dwarf -shared -fPIC split.c -o split.so",
                             top),
                     0);
    snprintf(path, sizeof path, "%s/split.so", top);
    void *library = dlopen(path, RTLD_NOW), *out = library ? dlsym(library, "out") : NULL;
    assert_non_null(out);
    assert_true(dladdr(out, &info));
    void *session = dp_module_lines.open();
    assert_int_equal(dp_module_lines.add(session, path, NULL, 0, (uintptr_t)info.dli_fbase), 0);
    for (uintptr_t pc = (uintptr_t)out + 1; n != 2 && pc < (uintptr_t)out + 32; pc++)
        n = dp_module_lines.lookup(session, 0, pc, lines, 8);
    assert_int_equal(n, 2);
    assert_string_equal(lines[0].name, "in");
    assert_string_equal(lines[1].name, "out");
    dp_module_lines.close(session);
    dlclose(library);
}

/* In lambda.cpp, where a C++ compiler is there. */
extern __attribute__((weak)) uintptr_t lambda_here(void);

TEST(a_lambda_has_the_name_of_its_function)
{
    struct dp_symbol_line lines[8];
    void *session;
    if (!lambda_here)
        skip();
    int n = look_up(&dp_module_lines, self, lambda_here() - 1, lines, &session);
    if (n < 2 || !lines[0].file) /* built without debug information, or by an optimizer that did not inline */
        skip();
    assert_string_equal(lines[0].name, "pc_here");
    assert_non_null(strstr(lines[1].name, "handle_request"));
    assert_non_null(strstr(lines[1].name, "::operator()"));
    dp_module_lines.close(session);
}

TEST(exported_functions_have_no_version_in_their_name)
{
    struct dp_symbol_line lines[8];
    Dl_info info;
    struct link_map *map;
    void *function = dlsym(dlopen("libc.so.6", RTLD_NOW), "qsort");
    assert_true(dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP));
    void *session = dp_module_symbolize.open();
    int handle = dp_module_symbolize.add(session, info.dli_fname, NULL, 0, map->l_addr);
    assert_int_equal(dp_module_symbolize.lookup(session, handle, (uintptr_t)function + 1, lines, 8), 1);
    assert_string_equal(lines[0].name, "qsort");
    dp_module_symbolize.close(session);
}

/* From all parts of its code. */
TEST(functions_all_over_a_large_file_are_named)
{
    static const char *const names[] = {"qsort",     "strtol", "printf", "getenv",      "fopen",   "realloc",
                                        "regcomp",   "glob",   "mmap",   "getaddrinfo", "scandir", "iconv_open",
                                        "sigaction", "wcstod", "ftw",    "timegm"};
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *session = dp_module_symbolize.open();
    Dl_info info;
    assert_non_null(libc);
    assert_true(dladdr(dlsym(libc, names[0]), &info));
    assert_int_equal(dp_module_symbolize.add(session, info.dli_fname, NULL, 0, (uintptr_t)info.dli_fbase), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct dp_symbol_line lines[8];
        void *function = dlsym(libc, names[i]);
        int n = dp_module_symbolize.lookup(session, 0, (uintptr_t)function + 1, lines, 8);
        assert_int_equal(n, 1);
        assert_ptr_equal(dlsym(libc, lines[0].name), function);
    }
    dp_module_symbolize.close(session);
    dlclose(libc);
}

/*
 * shape_outer holds a label and a smaller function. shape_open has no length; a name that begins with $ marks data in
 * it. shape_two has several names.
 */
__asm__(".pushsection .text\n"
        ".globl shape_outer, shape_inner, shape_open, shape_two, _shape_two\n"
        ".weak a_shape_two\n"
        ".type shape_outer, %function\n"
        ".type shape_inner, %function\n"
        ".type shape_open, %function\n"
        ".type shape_two, %function\n"
        ".type _shape_two, %function\n"
        ".type a_shape_two, %function\n"
        ".type b_shape_two, %function\n"
        "shape_outer: .skip 32\n"
        "shape_label: .skip 32\n"
        "shape_inner: .skip 16\n"
        ".size shape_inner, 16\n"
        ".skip 48\n"
        ".size shape_outer, 128\n"
        "shape_open: .skip 32\n"
        "\"$d.shape\": .skip 32\n"
        "a_shape_two: b_shape_two: _shape_two: shape_two: .skip 32\n"
        ".size shape_two, 32\n"
        ".size _shape_two, 32\n"
        ".size a_shape_two, 32\n"
        ".size b_shape_two, 32\n"
        ".popsection\n");
extern char shape_outer[];

TEST(the_nearest_function_that_holds_an_address_is_named)
{
    static const struct {
        int at;
        const char *name;
    } cases[] = {{0, "shape_outer"},  {33, "shape_outer"},  {64, "shape_inner"}, {79, "shape_inner"},
                 {80, "shape_outer"}, {127, "shape_outer"}, {128, "shape_open"}, {159, "shape_open"},
                 {161, "shape_open"}, {191, "shape_open"},  {192, "shape_two"},  {223, "shape_two"}};
    struct dp_symbol_line lines[8];
    void *session;
    look_up(&dp_module_symbolize, self, where_we_are(), lines, &session);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uintptr_t pc = (uintptr_t)shape_outer + (uintptr_t)cases[i].at;
        assert_int_equal(dp_module_symbolize.lookup(session, 0, pc, lines, 8), 1);
        assert_string_equal(lines[0].name, cases[i].name);
    }
    assert_int_equal(dp_module_symbolize.lookup(session, 0, (uintptr_t)top, lines, 8), 0); /* data */
    dp_module_symbolize.close(session);
}

/*
 * A function without a size extends to the next function; the last one extends for a page. Names are read in parts of
 * 256 and 4096 bytes.
 */
TEST(a_file_of_open_ends_and_long_names)
{
    static const int lengths[] = {255, 256, 257, 4095, 4096, 4097};
    static const struct {
        int at;
        const char *name;
    } cases[] = {{16, "sized"},          {31, "sized"},        {32, "open"},   {6000, "open"},     {16384, "last"},
                 {16384 + 4095, "last"}, {16384 + 4096, NULL}, {0, "_global"}, {20480 - 1, "last"}};
    enum { NAMES = sizeof lengths / sizeof *lengths };
    char path[96], name[5000];
    struct dp_symbol_line lines[8];
    Dl_info info;
    snprintf(path, sizeof path, "%s/ends.s", top);
    FILE *file = fopen(path, "w");
    fputs(".data\n", file);
    for (int i = 0; i < NAMES; i++) {
        memset(name, 'a' + i, sizeof name);
        fprintf(file, ".globl %.*s\n.type %.*s, %%object\n.size %.*s, 8\n%.*s: .quad 0\n", lengths[i], name, lengths[i],
                name, lengths[i], name, lengths[i], name);
    }
    fputs(".text\n.globl begin, _global\n.type sized, %function\n.size sized, 16\n.type open, %function\n"
          ".type last, %function\n.type _global, %function\n.size _global, 8\n.type local, %function\n.size local, 8\n"
          ".weak weak\n.type weak, %function\n.size weak, 8\n"
          "begin: local: weak: _global: .skip 16\nsized: .skip 16\nopen: .skip 16352\nlast: .skip 8192\n",
          file);
    fclose(file);
    assert_int_equal(command("cd %s && cc -nostdlib -shared -Wl,-z,noseparate-code ends.s -o ends.so", top), 0);
    snprintf(path, sizeof path, "%s/ends.so", top);
    void *library = dlopen(path, RTLD_NOW), *begin = library ? dlsym(library, "begin") : NULL;
    assert_non_null(begin);
    assert_true(dladdr(begin, &info));
    void *session = dp_module_symbolize.open();
    assert_int_equal(dp_module_symbolize.add(session, path, NULL, 0, (uintptr_t)info.dli_fbase), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = dp_module_symbolize.lookup(session, 0, (uintptr_t)begin + (uintptr_t)cases[i].at, lines, 8);
        assert_int_equal(n, cases[i].name != NULL);
        if (n)
            assert_string_equal(lines[0].name, cases[i].name);
    }
    for (int i = 0; i < NAMES; i++) {
        memset(name, 'a' + i, sizeof name);
        name[lengths[i]] = 0;
        assert_int_equal(dp_module_symbolize.variable(session, 0, (uintptr_t)dlsym(library, name), lines), 1);
        assert_string_equal(lines[0].name, name);
    }
    dp_module_symbolize.close(session);
    dlclose(library);
}

static struct {
    long before;
    char inside[32];
} a_variable = {1, "data"};
static char an_unset_variable[64];

TEST(variables_have_names_and_code_has_none)
{
    const struct dp_symbolize_ops *modules[] = {&dp_module_symbolize, &dp_module_lines};
    for (size_t i = 0; i < 2; i++) {
        const struct dp_symbolize_ops *module = modules[i];
        struct dp_symbol_line lines[8];
        void *session;
        look_up(module, self, where_we_are(), lines, &session);
        assert_int_equal(module->variable(session, 0, (uintptr_t)&a_variable.inside[3], lines), 1);
        assert_string_equal(lines[0].name, "a_variable");
        assert_int_equal(lines[0].line, sizeof(long) + 3);
        assert_int_equal(module->variable(session, 0, (uintptr_t)an_unset_variable, lines), 1);
        assert_string_equal(lines[0].name, "an_unset_variable");
        assert_int_equal(lines[0].line, 0);
        assert_int_equal(module->variable(session, 0, (uintptr_t)shape_outer, lines), 0);
        assert_int_equal(module->variable(session, 0, 1, lines), 0);
        assert_int_equal(module->variable(session, 0, UINTPTR_MAX, lines), 0);
        module->close(session);
    }
}

TEST(names_are_those_that_people_wrote)
{
    static const char *const cases[][2] = {
        {"_ZN9wikipedia7article6formatEv", "wikipedia::article::format()"},
        {"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)"},
        {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
        {"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
        {"main", NULL},
        {"_start", NULL},
        {"_Znonsense", NULL},
        {"", NULL},
    };
    char name[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(dp_demangle(cases[i][0], name, sizeof name), cases[i][1] != NULL);
        if (cases[i][1])
            assert_string_equal(name, cases[i][1]);
    }
    assert_int_equal(dp_demangle(cases[1][0], name, 10), 1); /* clipped, and ended */
    assert_string_equal(name, "std::vect");
}

TEST(names_that_nest_for_ever_are_left_alone)
{
    static char hostile[100000], out[4096];
    memset(hostile, 'P', sizeof hostile - 1);
    memcpy(hostile, "_Z1f", 4);
    dp_demangle(hostile, out, sizeof out);
    memset(hostile, 'N', sizeof hostile - 1);
    memcpy(hostile, "_RNvNvNv", 8);
    dp_demangle(hostile, out, sizeof out);
}

static int bias_of_self(struct dl_phdr_info *info, size_t size, void *ctx)
{
    bias = info->dlpi_addr;
    return 1;
}

/* The code that the kernel maps has no file. */
TEST(vdso_functions_have_names)
{
    uintptr_t image = getauxval(AT_SYSINFO_EHDR);
    const struct dp_symbolize_ops *modules[] = {&dp_module_symbolize, &dp_module_lines};
    for (int m = 0; m < 2 && image; m++) {
        void *session = modules[m]->open();
        int handle = modules[m]->add(session, "[vdso]", NULL, 0, image);
        int n_named = 0;
        assert_int_equal(handle, 0);
        for (uintptr_t pc = image; pc < image + 4096; pc += 16) {
            struct dp_symbol_line lines[8];
            n_named += modules[m]->lookup(session, handle, pc, lines, 8) == 1 && strstr(lines[0].name, "clock_gettime");
        }
        assert_true(n_named > 3);
        assert_int_equal(modules[m]->add(session, "[vdso]", (const uint8_t *)"01234567890123456789", 20, image),
                         -ESTALE);
        modules[m]->close(session);
    }
}

int main(void)
{
    dl_iterate_phdr(bias_of_self, NULL);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || scratch_directory(top, sizeof top, "symbolize"))
        return 1;
    int failed = run_unit(NULL, NULL);
    command("rm -rf %s", top);
    return failed;
}
