/* SPDX-License-Identifier: MIT */
/*
 * python.h - the layout of a running CPython, shared by the files of these hooks. A client of <deltaprof/hooks.h>.
 */
#pragma once

#include <deltaprof/hooks.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* As in hook.h. */
#define DP_LARGE __attribute__((section(".bss.zz_large")))

struct dp_range {
    uintptr_t start, end;
};

/* The interpreter that was found. Written once, before a provider can read it. */
struct dp_python {
    unsigned minor;     /* of 3.minor; 0: none was found */
    bool free_threaded; /* a build without the interpreter's lock */
    uint16_t more_head; /* bytes by which the head of its objects is larger than 16 */
    const void *code_type, *str_type, *bytes_type;
    void *(*this_thread)(void); /* the calling thread's state, with and without the GIL; NULL: it has none */
    int (*finalizing)(void);
    struct dp_range loop; /* the code of the interpreter's loop; before 3.10 nothing else tells its native frames */
    struct {
        uint16_t tstate_frame, tstate_cframe;   /* 0: this version has none */
        uint16_t cframe_frame, cframe_previous; /* while tstate_cframe is not 0 */
        uint16_t frame_code, frame_previous, frame_instruction, frame_owner, frame_entry;
        uint16_t code_file, code_name, code_first_line, code_lines, code_traceable, code_bytes;
        uint16_t code_version;           /* of a number that no other code object has, unless it is 0 */
        uint16_t str_ascii, str_compact; /* characters of an ASCII string, and of another one */
    } at;
};
extern struct dp_python dp_python __attribute__((visibility("hidden")));

/* The interpreter's static state, which contains its lock; the hooks of locks read it. Zero: not known. */
extern struct dp_range dp_python_state __attribute__((visibility("hidden")));

/* Finds the interpreter in the process. 0; -ENOENT: there is none; -ENOTSUP: one that is not known, *why says what.
 * Context: init. */
int dp_python_find(const char **why);

/*
 * Finds the interpreter and registers what `python=` wants; a second call does nothing. 0; -ENOENT: there is no Python,
 * or `python=off`; -ENOTSUP: an unknown one. Context: after the profiler started: in a constructor, or with the GIL.
 */
DELTAPROF_API int deltaprof_python_attach(void);

/* Makes the domains MEM and OBJ of the interpreter's allocator the heap `python`. Context: as above. */
void dp_python_wrap_allocator(void);

/* Installs it again if it was removed. To be called where dp_python_watched is set, at the end of the outermost hook of
 * a sampled malloc. */
extern bool dp_python_watched __attribute__((visibility("hidden")));
__attribute__((visibility("hidden"))) void dp_python_look(void);

/*
 * From now on the low 30 bits of a context variable's value are the label set of the code that runs in that context.
 * context: the one that the calling thread runs in; hash: the variable's; the types are those of two kinds of nodes of
 * its mapping. The variable lives for ever. 0; -ENOTSUP: contexts are not as expected. Context: with the GIL.
 */
DELTAPROF_API int deltaprof_python_labels(const void *context, const void *variable, int64_t hash,
                                          const void *mapping_type, const void *few_type, const void *many_type);

/*
 * From now on the value of this variable is the trace context of the code that runs in a context: bytes, 16 of the
 * trace id, 8 of the span id, and any that follow. Fewer bytes, another value, and none: no trace context. 0; -ENOTSUP:
 * deltaprof_python_labels has not succeeded. Context: with the GIL.
 */
DELTAPROF_API int deltaprof_python_trace(const void *variable, int64_t hash);

/*
 * Writes what changed, uncommitted. *bytes is the profile, also after an error: the caller gives it back by a call with
 * delta NULL, which frees *bytes. Context: ordinary.
 */
DELTAPROF_API int deltaprof_python_write(struct deltaprof_delta *delta, void **bytes, size_t *n_bytes);

/* The label set of the calling thread's context; 0: it has none. Context: any thread that runs Python. */
DELTAPROF_API uint32_t deltaprof_python_labels_now(void);

/* The same by the thread's state. Context: hook. */
uint32_t dp_python_labels_of(const char *tstate);

/* Gives the thread the trace context of its Python context, if such a variable is known. Context: hook. */
void dp_python_trace_of(const char *tstate);

/* From now on forks of a process with one thread find it with one thread. Context: init. */
void dp_python_watch_forks(void);

/* Whether the program forks now, so that deltaprof_poll must not be called. Context: hook. */
__attribute__((visibility("hidden"))) bool dp_python_is_forking(void);

/* The calling thread's innermost frame, of 3.12 and later; NULL: it has none. Context: hook. */
const char *dp_python_innermost(void);

/* The frame provider. Context: hook. */
void dp_python_frames(void *ctx, struct deltaprof_frames *frames);

/* The provider for threads that wait. Context: init. */
void dp_python_provide_waiting(void);

/* The id of a code object's function, from a cache by its address. Context: hook. */
uint32_t dp_python_function(const char *code, const struct deltaprof_function *);

/* The position of a frame in its code, in bytes. fields: the code object at `code`, or a copy. False: the frame has not
 * begun. Context: hook. */
bool dp_python_place_of(const char *frame, const char *fields, const char *code, size_t *offset);

/* The line of an instruction `offset` bytes into a code object's bytes; 0: it has none. Context: hook. */
uint32_t dp_python_line_of(const uint8_t *table, size_t n_bytes, uint32_t first_line, size_t offset);

/* A text of at most `max` bytes; buf is used where the string is not ASCII. False: not a string that can be read.
 * Context: hook. */
enum { DP_PYTHON_TEXT = 640 };
bool dp_python_text(const char *str, char buf[DP_PYTHON_TEXT], const char **text, uint32_t *n_bytes);

/* The fields of an object of bytes, behind the head of objects. */
enum { DP_PYTHON_BYTES_SIZE = 16, DP_PYTHON_BYTES_DATA = 32 };

/* These read fields of the interpreter's structures. Public headers do not declare their types. */
typedef const char *dp_python_pointer_field __attribute__((may_alias));
typedef int32_t dp_python_int_field __attribute__((may_alias));
typedef int64_t dp_python_long_field __attribute__((may_alias));

static inline const char *dp_python_pointer(const char *object, uint16_t offset)
{
    return *(const dp_python_pointer_field *)(object + offset);
}

static inline int32_t dp_python_int(const char *object, uint16_t offset)
{
    return *(const dp_python_int_field *)(object + offset);
}

static inline int64_t dp_python_long(const char *object, uint16_t offset)
{
    return *(const dp_python_long_field *)(object + offset);
}

/* The offset of a field of an object in this build. offset: where the head of objects has 16 bytes. */
static inline uint16_t dp_python_field(uint16_t offset)
{
    return (uint16_t)(offset + dp_python.more_head);
}

/* Addresses of user space have so many bits, unless a program asks for higher ones. */
#if defined(__x86_64__)
#define DP_PYTHON_ADDRESS_BITS 47
#else
#define DP_PYTHON_ADDRESS_BITS 48 /* under kernels with pages of 4 KiB */
#endif

/* Addresses of user space have so many bits, unless a program asks for higher ones. */
#if defined(__x86_64__)
#define DP_PYTHON_ADDRESS_BITS 47
#else
#define DP_PYTHON_ADDRESS_BITS 48 /* under kernels with pages of 4 KiB */
#endif

/* Whether an address can be that of an object: aligned and of user space. */
static inline bool dp_python_plausible(const void *object)
{
    return (uintptr_t)object % 8 == 0 && (uintptr_t)object - 65536 < ((uintptr_t)1 << DP_PYTHON_ADDRESS_BITS) - 65536;
}

static inline bool dp_python_is(const char *object, const void *type)
{
    return dp_python_plausible(object) && dp_python_pointer(object, dp_python_field(8)) == type;
}
