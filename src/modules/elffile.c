/* SPDX-License-Identifier: MIT */
/*
 * modules/elffile.c - opens ELF files and their debug files for their symbols. It uses libelf alone, because libdw
 * would load libdebuginfod, libcurl and TLS libraries into the host. Files are read, never mapped: a file that is
 * truncated meanwhile gives an error here, not a SIGBUS in the host.
 */
#include "modules/elffile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define BUILD_ID_MAX 64
#define VDSO_MAX     ((size_t)64 << 10)
#define UNPACKED_MAX ((size_t)64 << 20) /* limit for the unpacked .gnu_debugdata */

static int open_read(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* ---- build-ids -------------------------------------------------------------------------------------------------- */

/* The bytes of the build-id note; 0: there is none. */
static size_t build_id_of(Elf *elf, const uint8_t **build_id)
{
    size_t n_headers = 0;
    elf_getphdrnum(elf, &n_headers);
    for (size_t i = 0; i < n_headers; i++) {
        GElf_Phdr ph;
        GElf_Nhdr note;
        size_t name, desc;
        if (!gelf_getphdr(elf, (int)i, &ph))
            return 0; /* the count is not trusted, it may be four billion; the table must lie in the file */
        if (ph.p_type != PT_NOTE)
            continue;
        Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz, ELF_T_NHDR);
        for (size_t at = 0; data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0;) {
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp((char *)data->d_buf + name, "GNU", 4)) {
                *build_id = (const uint8_t *)data->d_buf + desc;
                return note.n_descsz;
            }
        }
    }
    return 0;
}

static bool has_build_id(Elf *elf, const uint8_t *build_id, size_t n_build_id)
{
    const uint8_t *found;
    return build_id_of(elf, &found) == n_build_id && !memcmp(found, build_id, n_build_id);
}

static bool fd_has_build_id(int fd, const uint8_t *build_id, size_t n_build_id)
{
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    bool same = elf && has_build_id(elf, build_id, n_build_id);
    elf_end(elf);
    return same;
}

/* ---- separate debug files --------------------------------------------------------------------------------------- */

static int open_debug(char *path, const uint8_t *build_id, size_t n_build_id, char **found)
{
    int fd = open_read(path);
    if (fd >= 0 && fd_has_build_id(fd, build_id, n_build_id)) {
        *found = path;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    free(path);
    return -1;
}

static bool in_hex(const uint8_t *build_id, size_t n_build_id, char hex[2 * BUILD_ID_MAX + 1])
{
    if (n_build_id < 2 || n_build_id > BUILD_ID_MAX)
        return false;
    for (size_t i = 0; i < n_build_id; i++)
        sprintf(hex + 2 * i, "%02x", build_id[i]);
    return true;
}

static int find_by_build_id(const uint8_t *build_id, size_t n_build_id, char **found)
{
    char hex[2 * BUILD_ID_MAX + 1], *path;
    if (!in_hex(build_id, n_build_id, hex) ||
        asprintf(&path, "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2) < 0)
        return -1;
    return open_debug(path, build_id, n_build_id, found);
}

/*
 * Looks in the cache of debuginfod's clients (debuginfod-find, gdb). No server is asked: each profile would wait for
 * it.
 */
static int find_in_cache(const uint8_t *build_id, size_t n_build_id, char **found)
{
    static const char *const places[][2] = {
        {"DEBUGINFOD_CACHE_PATH", ""}, {"XDG_CACHE_HOME", "/debuginfod_client"}, {"HOME", "/.cache/debuginfod_client"}};
    char hex[2 * BUILD_ID_MAX + 1], *path;
    if (!in_hex(build_id, n_build_id, hex))
        return -1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *root = secure_getenv(places[i][0]);
        if (!root || !*root)
            continue;
        if (asprintf(&path, "%s%s/%s/debuginfo", root, places[i][1], hex) < 0)
            return -1;
        return open_debug(path, build_id, n_build_id, found);
    }
    return -1;
}

/*
 * Looks where gdb does for a .gnu_debuglink; checks the build-id, not the link's checksum, which covers the whole file.
 */
static int find_by_link(const char *file, const uint8_t *build_id, size_t n_build_id, const char *link, char **found)
{
    static const char *const places[][2] = {{"", ""}, {"", "/.debug"}, {"/usr/lib/debug", ""}};
    const char *slash = file ? strrchr(file, '/') : NULL;
    int fd = -1;
    for (size_t i = 0; fd < 0 && slash && i < sizeof places / sizeof *places; i++) {
        char *path;
        if (asprintf(&path, "%s%.*s%s/%s", places[i][0], (int)(slash - file), file, places[i][1], link) < 0)
            return -1;
        if (strcmp(path, file))
            fd = open_debug(path, build_id, n_build_id, found);
        else
            free(path);
    }
    return fd;
}

int dp_elffile_find_debug(const char *path, const uint8_t *build_id, size_t n_build_id, const char *link, char **found)
{
    int fd = n_build_id ? find_by_build_id(build_id, n_build_id, found) : -1;
    if (fd < 0 && n_build_id && link)
        fd = find_by_link(path, build_id, n_build_id, link, found);
    return fd < 0 && n_build_id ? find_in_cache(build_id, n_build_id, found) : fd;
}

/* ---- sections --------------------------------------------------------------------------------------------------- */

/* The bytes of a section by name; NULL: there is none. */
static Elf_Data *section(Elf *elf, const char *wanted)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names))
        return NULL;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;
        if (name && !strcmp(name, wanted))
            return sh.sh_type == SHT_NOBITS ? NULL : elf_rawdata(scn, NULL);
    }
    return NULL;
}

static bool has_symtab(Elf *elf)
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_SYMTAB)
            return true;
    }
    return false;
}

static void add_part(struct elffile *file, Elf *elf, int fd)
{
    if (elf && elf_kind(elf) == ELF_K_ELF) {
        file->parts[file->n_parts++] = (struct elfpart){elf, fd};
        return;
    }
    elf_end(elf);
    if (fd >= 0)
        close(fd);
}

/* .gnu_debugdata is an xz file that holds an ELF file with the symbols of functions. */
static void add_minidebuginfo(struct elffile *file)
{
    Elf_Data *packed = section(file->parts[0].elf, ".gnu_debugdata");
    uint64_t limit = UNPACKED_MAX;
    for (size_t size = packed ? packed->d_size * 4 : UNPACKED_MAX + 1; size <= UNPACKED_MAX; size *= 4) {
        uint8_t *out = malloc(size);
        size_t at_in = 0, at_out = 0;
        lzma_ret ret =
            out ? lzma_stream_buffer_decode(&limit, 0, NULL, packed->d_buf, &at_in, packed->d_size, out, &at_out, size)
                : LZMA_MEM_ERROR;
        if (ret == LZMA_OK) {
            file->unpacked = out;
            add_part(file, elf_memory((char *)out, at_out), -1);
            return;
        }
        free(out);
        if (ret != LZMA_BUF_ERROR)
            return;
    }
}

/* Adds the other sources of a stripped file's symbols. */
static void add_others(struct elffile *file)
{
    Elf *elf = file->parts[0].elf;
    const uint8_t *build_id;
    size_t n = build_id_of(elf, &build_id);
    Elf_Data *link = section(elf, ".gnu_debuglink");
    const char *name = link && link->d_size && memchr(link->d_buf, 0, link->d_size) ? link->d_buf : NULL;
    char *found;
    int fd = dp_elffile_find_debug(file->path, build_id, n, name, &found);
    if (fd >= 0) {
        free(found);
        add_part(file, elf_begin(fd, ELF_C_READ, NULL), fd);
    } else {
        add_minidebuginfo(file);
    }
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* Reads a link of /proc, because debug files are searched beside the true file. */
static char *real_name(const char *path)
{
    static const char deleted[] = " (deleted)";
    char buffer[PATH_MAX];
    ssize_t n = strncmp(path, "/proc/", 6) ? -1 : readlink(path, buffer, sizeof buffer - 1);
    if (n < 0)
        return strdup(path);
    buffer[n] = 0;
    if ((size_t)n >= sizeof deleted && !strcmp(buffer + n - (sizeof deleted - 1), deleted))
        buffer[n - (ssize_t)(sizeof deleted - 1)] = 0;
    return strdup(buffer);
}

/*
 * The code that the kernel maps into each process has no file: its image is read in this process, where the kernel has
 * put the same one. The caller compares the build-id. 0, or -errno.
 */
static int open_vdso(struct elffile *file)
{
    const ElfW(Ehdr) *image = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
    if (!image)
        return -ENOENT;
    size_t n_bytes = image->e_shoff + (size_t)image->e_shnum * image->e_shentsize; /* they stand last */
    if (!image->e_shoff || n_bytes > VDSO_MAX || !(file->unpacked = malloc(n_bytes)))
        return image->e_shoff && n_bytes <= VDSO_MAX ? -ENOMEM : -ENOEXEC;
    memcpy(file->unpacked, image, n_bytes);
    add_part(file, elf_memory(file->unpacked, n_bytes), -1);
    return 0;
}

static int open_part(struct elffile *file, const char *path)
{
    if (!strcmp(path, "[vdso]"))
        return open_vdso(file);
    int fd = open_read(path);
    if (fd < 0)
        return -errno;
    add_part(file, elf_begin(fd, ELF_C_READ, NULL), fd);
    return 0;
}

int dp_elffile_open(struct elffile *file, const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias)
{
    memset(file, 0, sizeof *file);
    elf_version(EV_CURRENT);
    int opened = open_part(file, path);
    if (opened || !file->n_parts) {
        free(file->unpacked);
        return opened ? opened : -ENOEXEC;
    }
    file->bias = bias;
    file->path = real_name(path);
    int err = !file->path                                                             ? -ENOMEM
              : n_build_id && !has_build_id(file->parts[0].elf, build_id, n_build_id) ? -ESTALE
                                                                                      : 0;
    if (err)
        dp_elffile_close(file);
    else if (!has_symtab(file->parts[0].elf))
        add_others(file);
    return err;
}

void dp_elffile_close(struct elffile *file)
{
    for (int i = 0; i < file->n_parts; i++) {
        elf_end(file->parts[i].elf);
        if (file->parts[i].fd >= 0)
            close(file->parts[i].fd);
    }
    free(file->unpacked);
    dp_elfsymbols_free(file->symbols);
    dp_elfsymbols_free(file->variables);
    free(file->path);
}
