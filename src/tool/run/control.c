/* SPDX-License-Identifier: MIT */
/*
 * tool/run/control.c - finds the control file that a process has mapped, and writes a command into it.
 *
 * /proc/PID/maps tells whether the process listens, and where its file is, also if the process has another root, or has
 * changed its user since. The kernel shows it to the process's user and to root; the file itself admits its owner and
 * root. The pid in the slot is the one that the process knows, which in a container is another one.
 *
 * flock serializes those who write commands. The process takes no lock: a slot whose fingerprint is wrong is being
 * written, and the word changes after that. Commands for one process take turns: a lock on its word is kept until the
 * answer, or until its sender gives up.
 */
#include "tool/run/control.h"

#include "base/process.h"
#include "tmpfs/control.h"
#include "tmpfs/table_place.h"
#include "tool/recover/living.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { YOUNG_SECONDS = 3 };
#define YOUNG_NS 1000000000
#define LOOK_NS  2000000
#define LOCK_NS  3000000000

/* The process, and its mapping of a control file. */
struct target {
    pid_t pid, inner; /* as this process and as the process itself knows it */
    pid_t thread;     /* a thread that lives */
    uint64_t start;
    char path[4096]; /* of the file, from the process's root; "" not mapped */
    dev_t device;
    ino_t inode;
    bool is_deleted, has_library;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_for_answer(void)
{
    nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
}

/* Takes a line of /proc/PID/maps. */
static void read_mapping(struct target *target, char *line)
{
    static const char deleted[] = " (deleted)";
    unsigned major, minor;
    unsigned long inode;
    int at = 0;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%*x-%*x %*s %*x %x:%x %lu %n", &major, &minor, &inode, &at) != 3 || line[at] != '/')
        return;
    char *path = line + at;
    size_t n = strlen(path);
    target->has_library |= strstr(path, "/libdeltaprof") != NULL;
    bool is_deleted = n > sizeof deleted - 1 && !strcmp(path + n - (sizeof deleted - 1), deleted);
    if (is_deleted)
        path[n - (sizeof deleted - 1)] = 0;
    char *name = strrchr(path, '/'), *directory = memrchr(path, '/', (size_t)(name - path));
    if (strcmp(name + 1, DP_CONTROL_NAME) || !directory ||
        strncmp(directory + 1, DP_TABLES_DIRECTORY, sizeof DP_TABLES_DIRECTORY - 1))
        return;
    snprintf(target->path, sizeof target->path, "%s", path);
    target->device = makedev(major, minor);
    target->inode = inode;
    target->is_deleted = is_deleted;
}

/* Whether the process may not have come to its main yet. */
static bool is_young(const struct target *target)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec < target->start / (uint64_t)sysconf(_SC_CLK_TCK) + YOUNG_SECONDS;
}

/* 0, or -1 with the reason in why. */
static int find_target(struct target *target, pid_t pid, char *why, size_t n_why)
{
    char path[64], line[8192];
    *target = (struct target){.pid = pid, .inner = dp_process_inner_pid(pid)};
    target->start = dp_recover_living(pid, &target->thread);
    snprintf(path, sizeof path, "/proc/%d/task/%d/maps", (int)pid, (int)target->thread);
    FILE *file = target->start ? fopen(path, "re") : NULL;
    int err = errno;
    size_t n_lines = 0;
    for (; file && fgets(line, sizeof line, file); n_lines++)
        read_mapping(target, line);
    if (file)
        fclose(file);
    if (!target->start)
        snprintf(why, n_why, "there is no process %d", (int)pid);
    else if (!file || !n_lines)
        snprintf(why, n_why, "process %d: %s; only its user and root may ask it", (int)pid,
                 strerror(file ? EACCES : err));
    else if (target->is_deleted)
        snprintf(why, n_why, "process %d hears nothing: its file %s was removed; start it again", (int)pid,
                 target->path);
    else if (!*target->path && target->has_library)
        snprintf(why, n_why,
                 "process %d has deltaprof in it, but takes no commands: it did not begin with start=off, or log says "
                 "why; start it by deltaprof run --dormant",
                 (int)pid);
    else if (!*target->path)
        snprintf(why, n_why, "process %d does not have deltaprof in it: start it by deltaprof run --dormant -- COMMAND",
                 (int)pid);
    else
        return 0;
    return -1;
}

/* A descriptor, or -1 with the reason in why. */
static int open_file(const struct target *target, char *why, size_t n_why)
{
    char path[4200];
    struct stat stat_of;
    snprintf(path, sizeof path, "/proc/%d/task/%d/root%s", (int)target->pid, (int)target->thread, target->path);
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &stat_of)) {
        snprintf(why, n_why, "%s: %s; only its owner and root may ask process %d", target->path, strerror(errno),
                 (int)target->pid);
    } else if (stat_of.st_dev != target->device || stat_of.st_ino != target->inode) {
        snprintf(why, n_why, "process %d hears nothing: its file %s was replaced; start it again", (int)target->pid,
                 target->path);
    } else {
        int err = geteuid() && stat_of.st_uid != geteuid() ? -EPERM : dp_control_fill(fd);
        err = err ? err : dp_control_verify(fd, stat_of.st_uid);
        if (!err)
            return fd;
        snprintf(why, n_why, "%s: %s", target->path,
                 err == -EPROTO  ? "not a control file of this version of deltaprof"
                 : err == -EPERM ? "others than its owner may write it, or it is another user's"
                                 : strerror(-err));
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static off_t slot_at(size_t i)
{
    return (off_t)(offsetof(struct dp_control_file, slots) + i * sizeof(struct dp_control_slot));
}

static bool read_slot(int fd, size_t i, struct dp_control_slot *slot)
{
    return pread(fd, slot, sizeof *slot, slot_at(i)) == sizeof *slot;
}

/* The slot of the process, else a free one; -1: all are in use. *slot has what is in it. */
static long find_slot(int fd, const struct target *target, struct dp_control_slot *slot)
{
    long free_slot = -1;
    struct dp_control_slot seen;
    for (size_t i = 0; i < DP_CONTROL_SLOTS; i++) {
        if (!read_slot(fd, i, &seen))
            return -1;
        bool is_own = seen.pid == (uint32_t)target->inner && seen.start == target->start;
        bool is_free = !seen.pid || seen.answered == seen.seq ||
                       (target->inner == target->pid && dp_recover_living((pid_t)seen.pid, NULL) != seen.start);
        if (is_own || (is_free && free_slot < 0)) {
            free_slot = (long)i;
            *slot = seen;
        }
        if (is_own)
            break;
    }
    return free_slot;
}

/* Waits for the end of other commands for this process. */
static bool lock_word(int fd, const struct target *target, int64_t wait_ns)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = sizeof(uint32_t)};
    lock.l_start = (off_t)dp_control_word_at(target->inner);
    for (int64_t until = now_ns() + wait_ns; fcntl(fd, F_OFD_SETLK, &lock); pause_for_answer())
        if ((errno != EAGAIN && errno != EACCES) || now_ns() > until)
            return false;
    return true;
}

static bool lock_file(int fd)
{
    for (int64_t until = now_ns() + LOCK_NS; flock(fd, LOCK_EX | LOCK_NB); pause_for_answer())
        if (errno != EWOULDBLOCK || now_ns() > until)
            return false;
    return true;
}

/*
 * What the process is to carry out: the new command; an `on`, behind the keys of one that it has not heard yet. -1:
 * they are too long together.
 */
static int add_unheard(const struct dp_control_slot *slot, const struct target *target, const char *command,
                       char text[DP_CONTROL_TEXT])
{
    const char *keys = slot->command + 3;
    bool is_unheard = slot->pid == (uint32_t)target->inner && slot->start == target->start &&
                      slot->answered != slot->seq && slot->check == dp_control_check(slot) &&
                      memchr(slot->command, '\0', sizeof slot->command) && !strncmp(slot->command, "on ", 3);
    bool adds = is_unheard && *keys && !strncmp(command, "on ", 3);
    const char *more = strchr(command, ' ') + 1;
    int n = snprintf(text, DP_CONTROL_TEXT, "%s%s%s%s", adds ? "on " : command, adds ? keys : "",
                     adds && *more ? "," : "", adds ? more : "");
    return n < (int)DP_CONTROL_TEXT ? 0 : -1;
}

/* Under the lock: writes the command, then changes the word. Returns the slot, or -1 with errno. */
static long write_command(int fd, const struct target *target, const char *command, struct dp_control_slot *slot)
{
    uint32_t word;
    char text[DP_CONTROL_TEXT];
    long i = find_slot(fd, target, slot);
    if (i < 0 || add_unheard(slot, target, command, text)) {
        errno = i < 0 ? EBUSY : E2BIG;
        return -1;
    }
    slot->pid = (uint32_t)target->inner;
    slot->start = target->start;
    slot->seq = slot->seq == UINT32_MAX ? 1 : slot->seq + 1;
    if (slot->answered == slot->seq)
        slot->answered = 0;
    memset(slot->command, 0, sizeof slot->command);
    memcpy(slot->command, text, strlen(text));
    slot->check = dp_control_check(slot);
    off_t at = (off_t)dp_control_word_at(target->inner);
    if (pwrite(fd, slot, sizeof *slot, slot_at((size_t)i)) != sizeof *slot ||
        pread(fd, &word, sizeof word, at) != sizeof word)
        return -1;
    uint32_t next = (uint32_t)(now_ns() / 1000); /* not the one that a file had which was truncated since */
    word = next == word ? next + 1 : next;
    return pwrite(fd, &word, sizeof word, at) == sizeof word ? i : -1;
}

enum dp_run_control dp_run_control_send(pid_t pid, const char *command, int64_t wait_ns, char *why, size_t n_why)
{
    static struct target target;
    struct dp_control_slot slot = {.pid = 0};
    if (strlen(command) >= sizeof slot.command) {
        snprintf(why, n_why, "more than %zu bytes of keys", sizeof slot.command - 1);
        return DP_RUN_CONTROL_FAILED;
    }
    int err = find_target(&target, pid, why, n_why);
    for (int64_t until = now_ns() + YOUNG_NS; err && target.start && is_young(&target) && now_ns() < until;) {
        pause_for_answer();
        err = find_target(&target, pid, why, n_why);
    }
    int fd = err ? -1 : open_file(&target, why, n_why);
    if (fd < 0)
        return DP_RUN_CONTROL_FAILED;
    if (!lock_word(fd, &target, wait_ns)) {
        snprintf(why, n_why, "process %d: an earlier command still waits for its answer", (int)pid);
        close(fd);
        return DP_RUN_CONTROL_FAILED;
    }
    long i = lock_file(fd) ? write_command(fd, &target, command, &slot) : -1;
    if (i < 0)
        snprintf(why, n_why, "%s: %s", target.path,
                 errno == EBUSY         ? "too many commands wait in it"
                 : errno == E2BIG       ? "the process has not heard an earlier command, and both have too many keys"
                 : errno == EWOULDBLOCK ? "another process keeps it locked"
                                        : strerror(errno));
    flock(fd, LOCK_UN);
    enum dp_run_control result = i < 0 ? DP_RUN_CONTROL_FAILED : DP_RUN_CONTROL_UNHEARD;
    uint32_t seq = slot.seq;
    for (int64_t until = now_ns() + wait_ns; result == DP_RUN_CONTROL_UNHEARD; pause_for_answer()) {
        bool has_ended = dp_recover_living(pid, NULL) != target.start;
        if (!read_slot(fd, (size_t)i, &slot) || slot.seq != seq) {
            snprintf(why, n_why, "process %d: another command took the place of this one", (int)pid);
            result = DP_RUN_CONTROL_FAILED;
        } else if (slot.answered == seq) {
            result = slot.err ? DP_RUN_CONTROL_FAILED : DP_RUN_CONTROL_DONE;
            snprintf(why, n_why, "process %d: %.*s", (int)pid, (int)sizeof slot.answer - 1, slot.answer);
        } else if (has_ended) {
            snprintf(why, n_why, "process %d ended", (int)pid);
            result = DP_RUN_CONTROL_FAILED;
        } else if (now_ns() >= until) {
            break;
        }
    }
    close(fd);
    return result;
}
