/* SPDX-License-Identifier: MIT */
/*
 * tool/query/lookup.c - finds names for profiles that have only addresses. Such profiles come from a process that ends
 * by a signal or _exit before its first tick, which has opened no module, and from a child of a process with threads,
 * which cannot open one. The same module is used here, opened when first needed.
 *
 * If the symbols of a file are not on this machine, and the user has set DEBUGINFOD_URLS, the servers named there are
 * asked for them. The symbols go into the cache of debuginfod's clients, which the module reads. A build-id that the
 * servers do not have is asked for once in a process. Only this command asks them, never a profiled process.
 *
 * Only a file with the profile's build-id is used: a newer build has other functions at the same places.
 */
#include "tool/query/lookup.h"

#include "base/elf_headers.h"
#include "tool/query/installed.h"
#include "tool/query/print.h"
#include "tool/query/units.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BUILD_ID = 64 };

struct build_id {
    uint8_t bytes[MAX_BUILD_ID];
    size_t n;
};

struct dp_query_naming_object {
    int handle; /* of the session; negative: none */
    bool is_fetch_tried;
    size_t n_headers;
    Elf64_Phdr headers[DP_ELF_HEADERS_MAX];
};

/* The lines module reads symbol tables too; if its library is missing, the symbolize module reads only those. */
static bool open_module(struct dp_query_naming_lookup *names)
{
    static char dir[PATH_MAX];
    static struct dp_module lines = {.name = "lines", .dir = dir}, functions = {.name = "symbolize", .dir = dir};
    if (!names->opened && !dp_query_naming_module_dir(dir)) {
        names->ops = dp_module_open(&lines);
        if (!names->ops)
            names->ops = dp_module_open(&functions);
    }
    if (!names->opened && names->ops)
        names->session = names->ops->open();
    names->opened = true;
    return names->session != NULL;
}

/* Reads a hexadecimal build-id. Returns the number of its bytes; 0: it is not one. */
static size_t read_build_id(const char *hex, uint8_t bytes[MAX_BUILD_ID])
{
    static const char digits[] = "0123456789abcdef";
    size_t n = strlen(hex);
    if (n % 2 || n / 2 > MAX_BUILD_ID)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const char *digit = strchr(digits, hex[i]);
        if (!digit)
            return 0;
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | (digit - digits));
    }
    return n / 2;
}

static size_t read_headers(const char *path, Elf64_Phdr headers[DP_ELF_HEADERS_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return 0;
    size_t n = dp_elf_read_headers(fd, headers);
    close(fd);
    return n;
}

/* Whether the path is a regular file. Profiles are not trusted, and opening a device may have effects. */
static bool is_file(const char *path)
{
    struct stat st;
    return *path == '/' && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* ---- debuginfod ------------------------------------------------------------------------------------------------- */

/* Its API has been the same since elfutils 0.178. */
static struct {
    void *(*begin)(void);
    int (*find)(void *client, const unsigned char *build_id, int n_bytes, char **path);
    void (*end)(void *client);
    void *client;
    bool is_missing; /* the library, or a function of it */
    DP_VEC(struct build_id) failed;
} debuginfod;

/* The client, opened if it is not. NULL: the servers cannot be asked. */
static void *debuginfod_client(void)
{
    const char *urls = secure_getenv("DEBUGINFOD_URLS");
    if (debuginfod.client || debuginfod.is_missing || !urls || !*urls)
        return debuginfod.client;
    if (debuginfod.begin)
        return debuginfod.client = debuginfod.begin();
    void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    debuginfod.is_missing = !library;
    if (!library) {
        dp_query_print_error(
            NULL, "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 is not installed: symbols are not fetched");
        return NULL;
    }
    debuginfod.begin = (void *(*)(void))dlsym(library, "debuginfod_begin");
    debuginfod.find = (int (*)(void *, const unsigned char *, int, char **))dlsym(library, "debuginfod_find_debuginfo");
    debuginfod.end = (void (*)(void *))dlsym(library, "debuginfod_end");
    debuginfod.is_missing = !debuginfod.begin || !debuginfod.find || !debuginfod.end;
    return debuginfod.client = debuginfod.is_missing ? NULL : debuginfod.begin();
}

static bool has_failed(const uint8_t *build_id, size_t n)
{
    for (size_t i = 0; i < debuginfod.failed.n; i++)
        if (debuginfod.failed.at[i].n == n && !memcmp(debuginfod.failed.at[i].bytes, build_id, n))
            return true;
    return false;
}

/* Without memory it is not noted, and asked for again. */
static void note_failed(const uint8_t *build_id, size_t n)
{
    struct build_id *to = dp_vec_push(&debuginfod.failed);
    if (!to)
        return;
    to->n = n;
    memcpy(to->bytes, build_id, n);
}

/* Asks the servers for the symbols of a file. Returns whether they are in the cache now. */
static bool fetch(const char *path, const uint8_t *build_id, size_t n)
{
    char *to = NULL;
    void *client = has_failed(build_id, n) ? NULL : debuginfod_client();
    if (!client)
        return false;
    if (isatty(STDERR_FILENO)) {
        fputs("\r\033[Kdeltaprof: fetches symbols of ", stderr);
        dp_query_print_name(stderr, path, 200);
    }
    int fd = debuginfod.find(client, build_id, (int)n, &to);
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    free(to);
    if (fd >= 0)
        close(fd);
    else
        note_failed(build_id, n);
    return fd >= 0;
}

/*
 * Opens the file of a mapping in the module. path: the file; NULL: the one that the profile names. fetches: asks the
 * servers for its symbols first; if they have none, the object stays as it is.
 */
static void open_object(struct dp_query_naming_lookup *names, const struct dp_model *m, uint32_t mapping,
                        const char *path, struct dp_query_naming_object *object, bool fetches)
{
    uint8_t build_id[MAX_BUILD_ID];
    size_t n = read_build_id(dp_model_text(m, m->mappings.at[mapping].build_id), build_id);
    if (!path)
        path = dp_model_text(m, m->mappings.at[mapping].file);
    if (fetches && (!n || !is_file(path) || !fetch(path, build_id, n)))
        return;
    object->handle = !n ? -ESTALE : !is_file(path) ? -ENOENT : 0;
    if (!object->handle)
        object->handle = names->ops->add(names->session, path, build_id, n, 0);
    if (object->handle >= 0)
        object->n_headers = read_headers(path, object->headers);
}

/* The object of a mapping, opened when first asked for. NULL: no memory. */
static struct dp_query_naming_object *object_of(struct dp_query_naming_lookup *names, const struct dp_model *m,
                                                uint32_t mapping, const char *path)
{
    size_t known = names->objects.n;
    if (known < m->mappings.n) {
        if (!dp_vec_room(&names->objects, m->mappings.n - known))
            return NULL;
        memset(names->objects.at + known, 0, (m->mappings.n - known) * sizeof *names->objects.at);
        names->objects.n = m->mappings.n;
    }
    struct dp_query_naming_object **object = &names->objects.at[mapping];
    if (!*object && (*object = calloc(1, sizeof **object)))
        open_object(names, m, mapping, path, *object, false);
    return *object;
}

int dp_query_lookup_open(struct dp_query_naming_lookup *names, const struct dp_model *m, uint32_t mapping,
                         const char *path)
{
    if (!open_module(names) || !names->ops->ranges)
        return -ENOSYS;
    char *whole = path ? realpath(path, NULL) : NULL;
    struct dp_query_naming_object *object = !path || whole ? object_of(names, m, mapping, whole) : NULL;
    free(whole);
    return object ? object->handle : -ENOENT;
}

/* The address that symbols use, of a place, which is an offset in the file. False: it lies in no segment. */
static bool find_address(const struct dp_query_naming_object *object, uint64_t place, uint64_t *address)
{
    for (size_t i = 0; i < object->n_headers; i++) {
        const Elf64_Phdr *header = &object->headers[i];
        *address = place - header->p_offset + header->p_vaddr;
        if (header->p_type == PT_LOAD && place - header->p_offset < header->p_filesz)
            return true;
    }
    return false;
}

bool dp_query_lookup_address(const struct dp_query_naming_lookup *names, uint32_t mapping, uint64_t place,
                             uint64_t *address)
{
    return mapping < names->objects.n && names->objects.at[mapping] &&
           find_address(names->objects.at[mapping], place, address);
}

static int find_place(struct dp_query_naming_lookup *names, const struct dp_query_naming_object *object,
                      const struct dp_model_location *l, struct dp_symbol_line *lines, int max)
{
    uint64_t address;
    return object && object->handle >= 0 && find_address(object, l->place, &address)
               ? names->ops->lookup(names->session, object->handle, address, lines, max)
               : 0;
}

int dp_query_naming_lookup_find(struct dp_query_naming_lookup *names, const struct dp_model *m, uint32_t location,
                                struct dp_symbol_line *lines, int max)
{
    const struct dp_model_location *l = &m->locations.at[location];
    struct dp_query_naming_object *object =
        l->mapping && l->object && open_module(names) ? object_of(names, m, l->mapping - 1, NULL) : NULL;
    int n = find_place(names, object, l, lines, max);
    bool is_named = n > 0 || (l->n_lines && m->mappings.at[l->mapping - 1].has_functions);
    if (object && !is_named && !object->is_fetch_tried) {
        object->is_fetch_tried = true;
        open_object(names, m, l->mapping - 1, NULL, object, true);
        n = find_place(names, object, l, lines, max);
    }
    return n;
}

void dp_query_naming_lookup_fini(struct dp_query_naming_lookup *names)
{
    for (size_t i = 0; i < names->objects.n; i++)
        free(names->objects.at[i]);
    dp_vec_fini(&names->objects);
    if (names->session)
        names->ops->close(names->session);
    if (debuginfod.client)
        debuginfod.end(debuginfod.client);
    debuginfod.client = NULL;
    *names = (struct dp_query_naming_lookup){.ops = NULL};
}
