/* SPDX-License-Identifier: MIT */
/*
 * layout.c - finds CPython in the process, static or shared, and the offsets of the fields that frames.c reads.
 *
 * Offsets come from a table by version. The offsets of a code object's fields are read from the running interpreter
 * itself, which lists them for `inspect` (tp_members), and its size must be the one in the table: an interpreter with
 * another build (debug, traced references) is recognized by that, and not read.
 *
 * From 3.13 on the interpreter's static state begins with a table for debuggers, which tells a free-threaded build. Its
 * objects have a larger head: a thread's id, a lock, and two reference counts.
 */
#include "python.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <sys/types.h>

struct dp_python dp_python;
struct dp_range dp_python_state;

/* Of PyTypeObject, unchanged since 3.8. */
enum { TYPE_BASICSIZE = 32, TYPE_MEMBERS = 240 };

/* PyMemberDef, which is public. */
struct member {
    const char *name;
    int type;
    ssize_t offset;
    int flags;
    const char *doc;
};

enum { FREE_THREADED_HEAD = 32, HEAD = 16 };

static const struct known {
    unsigned minor;
    bool free_threaded;
    __typeof__(dp_python.at) at;
    uint16_t code_basicsize;
} versions[] = {
    {9,
     false,
     {.tstate_frame = 24,
      .frame_code = 32,
      .frame_previous = 24,
      .frame_instruction = 104,
      .str_ascii = 48,
      .str_compact = 72},
     176},
    {10,
     false,
     {.tstate_frame = 24,
      .tstate_cframe = 48,
      .cframe_previous = 8,
      .frame_code = 32,
      .frame_previous = 24,
      .frame_instruction = 96,
      .str_ascii = 48,
      .str_compact = 72},
     176},
    {11,
     false,
     {.tstate_cframe = 56,
      .cframe_frame = 8,
      .cframe_previous = 16,
      .frame_code = 32,
      .frame_previous = 48,
      .frame_instruction = 56,
      .frame_entry = 68,
      .frame_owner = 69,
      .code_traceable = 168,
      .code_bytes = 184,
      .str_ascii = 48,
      .str_compact = 72},
     184},
    {12,
     false,
     {.tstate_cframe = 56,
      .frame_previous = 8,
      .frame_instruction = 56,
      .frame_owner = 70,
      .code_traceable = 176,
      .code_version = 92,
      .code_bytes = 192,
      .str_ascii = 40,
      .str_compact = 56},
     192},
    {13,
     false,
     {.tstate_frame = 72,
      .frame_previous = 8,
      .frame_instruction = 56,
      .frame_owner = 70,
      .code_traceable = 184,
      .code_version = 92,
      .code_bytes = 200,
      .str_ascii = 40,
      .str_compact = 56},
     200},
    {13,
     true,
     {.tstate_frame = 72,
      .frame_previous = 8,
      .frame_instruction = 56,
      .frame_owner = 70,
      .code_traceable = 200,
      .code_version = 108,
      .code_bytes = 216,
      .str_ascii = 56,
      .str_compact = 72},
     216},
    {14,
     false,
     {.tstate_frame = 72,
      .frame_previous = 8,
      .frame_instruction = 56,
      .frame_owner = 74,
      .code_traceable = 192,
      .code_version = 92,
      .code_bytes = 208,
      .str_ascii = 40,
      .str_compact = 56},
     208},
    {15,
     false,
     {.tstate_frame = 72,
      .frame_previous = 8,
      .frame_instruction = 56,
      .frame_owner = 74,
      .code_traceable = 192,
      .code_version = 92,
      .code_bytes = 208,
      .str_ascii = 40,
      .str_compact = 56},
     208},
};

/* The offset of a member of code objects; 0: there is none of that name. */
static uint16_t member_offset(const char *type, const char *name)
{
    const struct member *m = (const struct member *)dp_python_pointer(type, dp_python_field(TYPE_MEMBERS));
    for (; m && m->name; m++)
        if (!strcmp(m->name, name))
            return m->offset > 0 && m->offset < 1024 ? (uint16_t)m->offset : 0;
    return 0;
}

/* "3.11.2 (main, ...)" -> 11; 0: not Python 3. */
static unsigned minor_of(const char *version)
{
    return !strncmp(version, "3.", 2) ? (unsigned)strtoul(version + 2, NULL, 10) : 0;
}

/* Whether the interpreter is a free-threaded build. state: its static state. */
static bool is_free_threaded(struct dp_range state)
{
    enum { COOKIE = 0, FREE_THREADED = 16, BYTES = 24 };
    const char *table = (const char *)state.start;
    return state.end - state.start >= BYTES && !memcmp(table + COOKIE, "xdebugpy", 8) &&
           dp_python_long(table, FREE_THREADED) == 1;
}

static int find_layout(const char *version)
{
    unsigned minor = minor_of(version);
    bool free_threaded = minor >= 13 && is_free_threaded(dp_python_state);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        if (versions[i].minor != minor || versions[i].free_threaded != free_threaded)
            continue;
        const char *type = dp_python.code_type;
        dp_python.free_threaded = free_threaded;
        dp_python.more_head = free_threaded ? FREE_THREADED_HEAD - HEAD : 0;
        dp_python.at = versions[i].at;
        dp_python.at.code_file = member_offset(type, "co_filename");
        dp_python.at.code_name = member_offset(type, minor >= 11 ? "co_qualname" : "co_name");
        dp_python.at.code_first_line = member_offset(type, "co_firstlineno");
        dp_python.at.code_lines = member_offset(type, minor >= 10 ? "co_linetable" : "co_lnotab");
        bool same = dp_python_int(type, dp_python_field(TYPE_BASICSIZE)) == versions[i].code_basicsize &&
                    dp_python.at.code_file && dp_python.at.code_name && dp_python.at.code_first_line &&
                    dp_python.at.code_lines;
        dp_python.minor = same ? minor : 0;
        return same ? 0 : -ENOTSUP;
    }
    return -ENOTSUP;
}

/*
 * NULL if no Python is in the global scope. It is not looked up by dlsym, because a failed search allocates an error
 * text with the program's malloc, and programs without Python must not pay for that.
 */
extern const char *Py_GetVersion(void) __attribute__((weak, visibility("default")));

#ifdef RTLD_DL_SYMENT
static size_t size_of(const char *start)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;
    return dladdr1(start, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol ? symbol->st_size : 0;
}
#else
/* musl does not show the symbol: its end is where addresses stop to belong to it. */
static size_t size_of(const char *start)
{
    Dl_info info;
    size_t inside = 0, step = 1 << 20;
    for (; step; step /= 2)
        if (dladdr(start + inside + step, &info) && info.dli_saddr == (void *)start)
            inside += step;
    return inside + 1;
}
#endif

/* The bytes that a symbol of the interpreter names. */
static struct dp_range range_of(const char *name)
{
    const char *start = dlsym(RTLD_DEFAULT, name);
    size_t n_bytes = start ? size_of(start) : 0;
    return n_bytes ? (struct dp_range){(uintptr_t)start, (uintptr_t)start + n_bytes} : (struct dp_range){0, 0};
}

int dp_python_find(const char **why)
{
    if (!Py_GetVersion)
        return -ENOENT;
    *why = Py_GetVersion();
    dp_python.this_thread = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    dp_python.finalizing = (int (*)(void))dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
    if (!dp_python.finalizing)
        dp_python.finalizing = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    dp_python.code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
    dp_python.str_type = dlsym(RTLD_DEFAULT, "PyUnicode_Type");
    dp_python.bytes_type = dlsym(RTLD_DEFAULT, "PyBytes_Type");
    if (!dp_python.this_thread || !dp_python.finalizing || !dp_python.code_type || !dp_python.str_type ||
        !dp_python.bytes_type) {
        dlerror();
        return -ENOTSUP;
    }
    dp_python_state = range_of("_PyRuntime");
    int err = find_layout(*why);
    if (err) {
        dp_python_state = (struct dp_range){0, 0};
        return err;
    }
    dp_python.loop = range_of("_PyEval_EvalFrameDefault");
    return 0;
}
