/* SPDX-License-Identifier: MIT */
/*
 * host/shared/table_file.c - makes the file of the shared arrays, by plain system calls.
 *
 * The directory must lie in a tmpfs: a file on a disk would be written back, and an OOM kill would wait for that. No
 * other user may enter the directory (table_place.h). The file is locked (flock) before it gets its name, and the
 * descriptor is closed at once: the lock lives as long as the mapping, so it ends with the process. RLIMIT_FSIZE is
 * checked first, because making the file longer than it would kill the process (SIGXFSZ). The entries in use are
 * written with pwrite(2), which returns an error if the file system is full. Later the kernel is asked for pages before
 * they are used (shared.c).
 *
 * A forked child copies its parent's entries up to its own counts; these entries do not change any more. Its heap
 * counters are those at the fork, which the caller passes in (struct dp_shared_content).
 *
 * [TOLD] dp_shared_file_failure passes the reason of a failure on once. `what` is stored with release after `err` and
 * swapped with acquire; else a log line could have an older errno.
 */
#include "host/shared/table_file.h"

#include "base/io.h"
#include "base/libc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/process.h"
#include "tmpfs/table_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OF_NOBODY ((uid_t)-1)

static struct {
    struct dp_tables_file *header; /* at the beginning of the range */
    char *end;                     /* of the range */
    bool wanted, mapped;
    bool own;       /* this process made the file that is mapped */
    bool is_marked; /* this process made the file that says that its tables are in none */
    int mark_err;   /* what that file says, also those of forked children; 0: there is none */
    char directory[DP_CONFIG_TEXT];
    uid_t user; /* whose directory it is; OF_NOBODY: the configuration names it */
    char name[DP_TABLE_NAME_MAX];
    const char *_Atomic what; /* the step that failed; NULL: none, or it was passed on. [TOLD] */
    _Atomic int err;          /* its negative errno */
} file;

bool dp_shared_file_is_wanted(void)
{
    return file.wanted || file.mapped;
}

bool dp_shared_file_is_mapped(void)
{
    return file.mapped;
}

bool dp_shared_file_is_own(void)
{
    return file.own;
}

struct dp_tables_file *dp_shared_file_header(void)
{
    return file.header;
}

void dp_shared_file_commit(enum dp_tables_array id, uint32_t n)
{
    _Atomic uint32_t *committed = &file.header->arrays[id].committed;
    uint32_t before = dp_load_relaxed(committed);
    while (before < n && !dp_cas_relaxed(committed, &before, n)) {
    }
}

/* ---- init ------------------------------------------------------------------------------------------------------- */

static void copy_text(char *to, size_t n_bytes, const char *from)
{
    size_t n = strlen(from);
    n = n < n_bytes ? n : n_bytes - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

/* Fills the header's list of arrays. False: the arrays are not one range of addresses. */
static bool describe_arrays(void)
{
    struct dp_tables_file *h = file.header;
    size_t n_bytes = dp_page_ceil(DP_TABLE_FILE_HEADER);
    for (int id = 0; id < DP_ARRAYS; id++) {
        const struct dp_shared_array *array = dp_shared_array((enum dp_tables_array)id);
        if (!array->at)
            continue;
        n_bytes += array->n_parts * array->stride_bytes;
        h->arrays[id].offset = (uint64_t)(array->at - (char *)h);
        h->arrays[id].stride_bytes = array->stride_bytes;
        h->arrays[id].each_bytes = (uint32_t)array->each_bytes;
        h->arrays[id].n_parts = array->n_parts;
    }
    h->n_bytes = n_bytes;
    return (size_t)(file.end - (char *)h) == n_bytes;
}

static void describe_process(const struct dp_config *conf)
{
    struct dp_tables_file *h = file.header;
    const char *execfn = (const char *)getauxval(AT_EXECFN);
    memcpy(h->magic, DP_TABLE_FILE_MAGIC, sizeof DP_TABLE_FILE_MAGIC);
    h->header_bytes = DP_TABLE_FILE_HEADER;
    h->entry = getauxval(AT_ENTRY);
    h->memory = conf->memory;
    h->heap_rate = conf->heap_rate;
    h->depth = conf->depth;
    h->max_samples = conf->max_samples;
    h->age = conf->age;
    h->unwind = conf->unwind;
    h->symbolize = conf->symbolize;
    h->address = conf->address;
    h->types = conf->types;
    h->mmap = conf->mmap;
    dp_process_program(h->program);
    copy_text(h->execfn, sizeof h->execfn, execfn ? execfn : "");
    copy_text(h->out, sizeof h->out, conf->out);
}

int dp_shared_file_init(const struct dp_config *conf)
{
    file.header = dp_mem_table_shared(DP_TABLE_FILE_HEADER, DP_TABLE_FILE_HEADER);
    if (!file.header)
        return -ENOMEM;
    file.end = (char *)file.header + dp_page_ceil(DP_TABLE_FILE_HEADER);
    for (int id = 0; id < DP_ARRAYS; id++) {
        const struct dp_shared_array *array = dp_shared_array((enum dp_tables_array)id);
        char *end = array->at ? array->at + array->n_parts * array->stride_bytes : NULL;
        file.end = end > file.end ? end : file.end;
    }
    bool is_range = describe_arrays();
    file.wanted = is_range && conf->tables[0];
    if (file.wanted && madvise(&dp_shared_own, sizeof dp_shared_own, MADV_WIPEONFORK))
        file.wanted = false;
    if (!file.wanted)
        return 0;
    copy_text(file.directory, sizeof file.directory, conf->tables);
    file.user = conf->has_users_tables ? (uid_t)syscall(SYS_geteuid) : OF_NOBODY;
    describe_process(conf);
    return 0;
}

/* ---- making the file -------------------------------------------------------------------------------------------- */

/*
 * A system call's result, or its negative errno. libc's functions are not called: they are cancellation points, and a
 * program may interpose them.
 */
static int result_of(long got)
{
    return got < 0 ? -errno : (int)got;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        syscall(SYS_close, fd);
}

/* The number of entries that a new file gets from an array. */
static uint32_t count_copied(const struct dp_shared_array *array)
{
    if (array->is_fresh)
        return 0;
    uint32_t committed = dp_load_relaxed(&array->committed);
    uint32_t n = array->used ? dp_load_relaxed(array->used) : file.mapped ? committed : 0;
    return n < committed ? n : committed;
}

/* Writes n entries. Sets how many have memory then: all in the pages that were written. */
static int write_array(int fd, enum dp_tables_array id, const void *at, uint32_t n, uint32_t committed[DP_ARRAYS])
{
    const struct dp_shared_array *array = dp_shared_array(id);
    size_t n_bytes = n * array->each_bytes;
    int err = n ? dp_io_write_at(fd, at, n_bytes, (uint64_t)(array->at - (char *)file.header)) : 0;
    size_t whole = dp_page_ceil(n_bytes) / array->each_bytes;
    committed[id] = whole < array->most ? (uint32_t)whole : array->most;
    return err;
}

static int write_arrays(int fd, const struct dp_shared_content *contents, size_t n_contents,
                        uint32_t committed[DP_ARRAYS])
{
    static const char zeros[64];
    for (int i = 0; i < DP_ARRAYS; i++) {
        enum dp_tables_array id = (enum dp_tables_array)i;
        const struct dp_shared_array *array = dp_shared_array(id);
        const void *at = array->at;
        uint32_t n = at ? count_copied(array) : 0;
        for (size_t k = 0; k < n_contents; k++)
            if (contents[k].id == id) {
                at = contents[k].at;
                n = contents[k].n;
            }
        if (id < DP_ARRAY_BASE && !n) { /* the counters of [overflow] may be written at any time */
            at = zeros;
            n = 1;
        }
        int err = at ? write_array(fd, id, at, n, committed) : 0;
        if (err)
            return err;
    }
    return 0;
}

static int write_header(int fd, uint32_t epoch, const uint32_t committed[DP_ARRAYS], int64_t wall_ns, int64_t mono_ns)
{
    struct dp_tables_file *h = file.header;
    static DP_LARGE _Alignas(8) char page[DP_TABLE_FILE_HEADER]; /* static: the stack may be small */
    struct dp_tables_file *to = (struct dp_tables_file *)(void *)page;
    memset(page, 0, sizeof page);
    memcpy(page, h, sizeof *h);
    to->pid = dp_process_pid();
    to->parent = (int32_t)syscall(SYS_getppid);
    to->uid = (uint32_t)syscall(SYS_geteuid);
    to->epoch = epoch;
    to->pid_namespace = dp_process_pid_namespace();
    to->made_wall_ns = wall_ns;
    if (epoch || !to->origin_wall_ns) {
        to->origin_wall_ns = wall_ns;
        to->origin_mono_ns = mono_ns;
    }
    dp_store_relaxed(&to->sampled_mono_ns, 0);
    memset(to->current, 0, sizeof to->current);
    memset(to->columns, 0, sizeof to->columns);
    if (!to->exe[0])
        (void)!syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", to->exe, sizeof to->exe - 1);
    for (int i = 0; i < DP_ARRAYS; i++)
        dp_store_relaxed(&to->arrays[i].committed, committed[i]);
    return dp_io_write_at(fd, page, sizeof page, 0);
}

/* Appends a number; returns the end of the text. */
static char *append_number(char *to, uint64_t number, unsigned base)
{
    char digits[24];
    size_t n = 0;
    do
        digits[n++] = "0123456789abcdef"[number % base];
    while (number /= base);
    while (n)
        *to++ = digits[--n];
    *to = '\0';
    return to;
}

static void make_name(char *name, uint32_t epoch, int64_t mono_ns)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t seed = 0;
    if (random)
        memcpy(&seed, random, sizeof seed);
    seed ^= (uint64_t)dp_clock_read(CLOCK_MONOTONIC) ^ (uint64_t)dp_process_pid() << 32 ^ epoch;
    char *end = append_number(name, (uint64_t)dp_process_pid(), 10);
    *end++ = '.';
    end = append_number(end, (uint64_t)mono_ns / 10000000, 10);
    *end++ = '.';
    append_number(end, dp_hash_mix(seed) >> 32 | 1u << 31, 16);
}

/* Replaces the parent's file in a child by private memory with the same content. */
static bool map_private(const struct dp_shared_content *contents, size_t n_contents)
{
    char *from = (char *)file.header;
    size_t n_bytes = (size_t)(file.end - from);
    char *to = (char *)syscall(SYS_mmap, NULL, n_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1L, 0L);
    if (to == MAP_FAILED)
        return false;
    memcpy(to, from, sizeof *file.header);
    for (int i = 0; i < DP_ARRAYS; i++) {
        const struct dp_shared_array *array = dp_shared_array((enum dp_tables_array)i);
        if (array->at)
            memcpy(to + (array->at - from), array->at, count_copied(array) * array->each_bytes);
    }
    for (size_t k = 0; k < n_contents; k++) {
        const struct dp_shared_array *array = dp_shared_array(contents[k].id);
        memcpy(to + (array->at - from), contents[k].at, contents[k].n * array->each_bytes);
    }
    if (syscall(SYS_mremap, to, n_bytes, n_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from) == -1) {
        syscall(SYS_munmap, to, n_bytes);
        return false;
    }
    for (int i = 0; i < DP_ARRAYS; i++)
        dp_store_relaxed(&dp_shared_array((enum dp_tables_array)i)->committed,
                         dp_shared_array((enum dp_tables_array)i)->most);
    return true;
}

static int map_file(int fd)
{
    size_t n_bytes = (size_t)(file.end - (char *)file.header);
    /* 0L and (long)fd: syscall reads each argument as a long, and of an int on the stack half is not defined. */
    long got = syscall(SYS_mmap, file.header, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (long)fd, 0L);
    return got == -1 ? -errno : 0;
}

/* 0 if a file may be made: no filter, no limit of its size, and a kernel that has MADV_POPULATE_WRITE. */
static int check_kernel(void)
{
    struct rlimit limit;
    size_t n_bytes = (size_t)(file.end - (char *)file.header);
    if (dp_process_has_seccomp() || dp_process_is_filtered())
        return -EPERM;
    if (!syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) && limit.rlim_cur < n_bytes)
        return -EFBIG;
    if (file.mapped) /* the kernel has it: the parent made a file */
        return 0;
    return madvise(&dp_shared_own, dp_page_bytes(), MADV_POPULATE_WRITE) ? -errno : 0;
}

static int make_file(int dir, uint32_t epoch, const struct dp_shared_content *contents, size_t n_contents,
                     const char **what)
{
    char temporary[DP_TABLE_NAME_MAX + sizeof DP_TABLE_FILE_NEW];
    uint32_t committed[DP_ARRAYS] = {0};
    int64_t wall_ns, mono_ns;
    dp_clock_moment(&mono_ns, &wall_ns);
    make_name(file.name, epoch, mono_ns);
    size_t n_name = strlen(file.name);
    memcpy(temporary, file.name, n_name);
    memcpy(temporary + n_name, DP_TABLE_FILE_NEW, sizeof DP_TABLE_FILE_NEW);
    *what = "make a file";
    int fd = result_of(syscall(SYS_openat, dir, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd < 0)
        return fd;
    int err = result_of(syscall(SYS_flock, fd, LOCK_EX | LOCK_NB));
    if (!err)
        err = result_of(syscall(SYS_ftruncate, fd, (long)(file.end - (char *)file.header)));
    if (!err)
        err = write_arrays(fd, contents, n_contents, committed);
    if (!err)
        err = write_header(fd, epoch, committed, wall_ns, mono_ns);
    if (!err)
        err = result_of(syscall(SYS_renameat, dir, temporary, dir, file.name));
    if (!err && (err = map_file(fd)))
        syscall(SYS_unlinkat, dir, file.name, 0);
    else if (err)
        syscall(SYS_unlinkat, dir, temporary, 0);
    close_fd(fd);
    for (int i = 0; !err && i < DP_ARRAYS; i++)
        dp_store_relaxed(&dp_shared_array((enum dp_tables_array)i)->committed, committed[i]);
    return err;
}

/* An empty file needs no page, so there is room for one where the tmpfs is full. */
static void mark(int dir, int err)
{
    char *end = file.name + strlen(file.name);
    *end++ = '.';
    end = append_number(end, (uint64_t)-err, 10);
    *end++ = '.';
    end = append_number(end, dp_process_pid_namespace(), 10);
    memcpy(end, DP_TABLE_FILE_NONE, sizeof DP_TABLE_FILE_NONE);
    int fd = result_of(syscall(SYS_openat, dir, file.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    file.is_marked = fd >= 0;
    close_fd(fd);
}

/* After setuid: the first user's directory, which may be missing, must not be made for the second user. */
static void follow_user(void)
{
    uid_t user = (uid_t)syscall(SYS_geteuid);
    if (file.user == OF_NOBODY || file.user == user)
        return;
    file.user = user;
    dp_tables_place_of(user, "/dev/shm", file.directory, sizeof file.directory);
}

bool dp_shared_file_make(uint32_t epoch, const struct dp_shared_content *contents, size_t n_contents)
{
    int saved = errno;
    const char *what = "make a file";
    int dir = -1, err = check_kernel();
    follow_user();
    if (!err)
        err = dir = dp_tables_place_open(file.directory, true, &what);
    if (dir >= 0)
        err = make_file(dir, epoch, contents, n_contents, &what);
    file.mark_err = dir >= 0 ? err : 0;
    if (file.mark_err)
        mark(dir, err);
    close_fd(dir);
    bool is_usable = true;
    if (!err) {
        file.mapped = file.own = true;
    } else {
        madvise(&dp_shared_own, sizeof dp_shared_own, MADV_KEEPONFORK);
        is_usable = !file.mapped || map_private(contents, n_contents);
        file.wanted = file.mapped = file.own = file.mapped && !is_usable;
    }
    dp_store_relaxed(&file.err, err);
    dp_store_release(&file.what, err ? what : NULL); /* [TOLD] */
    errno = saved;
    return is_usable;
}

DP_IN_CHILD bool dp_shared_file_has_mark(void)
{
    return file.mark_err != 0;
}

void dp_shared_file_mark_child(uint32_t epoch)
{
    int64_t wall_ns, mono_ns;
    int saved = errno;
    const char *what;
    if (!file.mark_err || file.is_marked || dp_process_has_seccomp() || dp_process_is_filtered())
        return;
    dp_clock_moment(&mono_ns, &wall_ns);
    make_name(file.name, epoch, mono_ns);
    int dir = dp_tables_place_open(file.directory, false, &what);
    if (dir >= 0)
        mark(dir, file.mark_err);
    close_fd(dir);
    errno = saved;
}

int dp_shared_file_failure(const char **directory, const char **what)
{
    *directory = file.directory;
    *what = dp_swap_acq_rel(&file.what, NULL); /* [TOLD] */
    return dp_load_relaxed(&file.err);
}

static void unlink_file(void)
{
    char path[sizeof file.directory + sizeof file.name + 1];
    size_t n = strlen(file.directory);
    memcpy(path, file.directory, n);
    path[n] = '/';
    memcpy(path + n + 1, file.name, strlen(file.name) + 1);
    syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

void dp_shared_file_set_end(bool has_rest)
{
    int saved = errno;
    if (file.is_marked && !dp_process_has_seccomp() && !dp_process_is_filtered())
        unlink_file();
    errno = saved;
    if (!file.own)
        return;
    dp_store_relaxed(&file.header->state, has_rest ? DP_TABLE_HAS_REST : DP_TABLE_IS_DONE);
    if (has_rest || dp_process_has_seccomp() || dp_process_is_filtered())
        return;
    if (!dp_tables_place_wants_table(file.directory)) /* else the program that serves it deletes it */
        unlink_file();
    errno = saved;
}

void dp_shared_file_set_sampled(int64_t mono_ns)
{
    if (file.own)
        dp_store_relaxed(&file.header->sampled_mono_ns, mono_ns);
}

/* Whether the header is the process's own. */
static bool is_own_header(void)
{
    return file.header && (!file.mapped || file.own);
}

void dp_shared_file_set_off(unsigned kind, int64_t off)
{
    if (is_own_header())
        dp_store_relaxed(&file.header->off[kind], off);
}

void dp_shared_file_set_kinds(uint32_t kinds, int64_t block_rate_ns, bool is_on)
{
    if (!is_own_header())
        return;
    dp_store_relaxed(&file.header->block_rate_ns, is_on ? block_rate_ns : 0);
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        file.header->is_on[kind] = kinds >> kind & 1;
    if (is_on || !dp_load_relaxed(&file.header->off_wall_ns))
        dp_store_relaxed(&file.header->off_wall_ns, is_on ? 0 : dp_clock_wall_ns());
}

DP_IN_CHILD void dp_shared_file_fork_child(void)
{
    file.own = file.is_marked = false;
}
