/* SPDX-License-Identifier: MIT */
/* The mapping of the control file: words and slots are compared and copied, and a truncated file is an error. */
#include "tmpfs/control.h"
#include "tmpfs/table_place.h"

#include "support/unit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PID = 4711 };

/* A file with a layout. */
static int new_file(void)
{
    int fd = memfd_create("control", 0);
    assert_true(fd >= 0);
    assert_int_equal(dp_control_verify(fd, geteuid()), -EPERM); /* others may read a memfd */
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(dp_control_verify(fd, geteuid()), -EPROTO);
    assert_int_equal(dp_control_fill(fd), 0);
    assert_int_equal(dp_control_verify(fd, geteuid()), 0);
    assert_int_equal(dp_control_verify(fd, geteuid() + 1), -EPERM);
    return fd;
}

static void change_word(int fd, pid_t pid, uint32_t word)
{
    assert_int_equal(pwrite(fd, &word, sizeof word, (off_t)dp_control_word_at(pid)), sizeof word);
}

TEST(only_the_word_of_the_pid_counts)
{
    int fd = new_file();
    struct dp_control_file *file = dp_control_map(fd);
    assert_non_null(file);
    assert_false(dp_control_is_changed(file, PID, 0));
    change_word(fd, PID + 1, 5);
    assert_false(dp_control_is_changed(file, PID, 0));
    change_word(fd, PID, 7);
    assert_true(dp_control_is_changed(file, PID, 0));
    assert_false(dp_control_is_changed(file, PID, 7));
    assert_int_equal(dp_control_word(file, PID, 0), 7);
    assert_false(dp_control_is_changed(file, PID + DP_CONTROL_WORDS, 7)); /* it has the same word */
    munmap(file, sizeof *file);
    close(fd);
}

TEST(a_truncated_file_is_no_signal)
{
    int fd = new_file();
    struct dp_control_file *file = dp_control_map(fd);
    struct dp_control_slot slot = {.pid = PID};
    change_word(fd, PID, 7);
    assert_int_equal(dp_control_copy(&file->slots[3], &slot, sizeof slot), 0);
    slot.pid = 0;
    assert_int_equal(dp_control_copy(&slot, &file->slots[3], sizeof slot), 0);
    assert_int_equal(slot.pid, PID);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_false(dp_control_is_changed(file, PID, 0));
    assert_int_equal(dp_control_word(file, PID, 3), 3);
    assert_int_equal(dp_control_copy(&slot, &file->slots[3], sizeof slot), -EFAULT);
    assert_int_equal(dp_control_copy(&file->slots[3], &slot, sizeof slot), -EFAULT);
    assert_int_equal(dp_control_fill(fd), 0);
    assert_int_equal(dp_control_copy(&slot, &file->slots[3], sizeof slot), 0);
    assert_int_equal(slot.pid, 0);
    munmap(file, sizeof *file);
    close(fd);
}

TEST(the_fingerprint_covers_all_of_a_command)
{
    struct dp_control_slot slot = {.pid = PID, .seq = 1, .start = 99};
    strcpy(slot.command, "on heap_rate=1");
    uint64_t check = dp_control_check(&slot);
    for (size_t i = 0; i < offsetof(struct dp_control_slot, check); i++) {
        ((char *)&slot)[i] ^= 1;
        assert_true(dp_control_check(&slot) != check);
        ((char *)&slot)[i] ^= 1;
    }
    slot.answered = 1;
    assert_true(dp_control_check(&slot) == check);
}

TEST(the_directory_is_made_in_a_tmpfs_only)
{
    char path[512];
    const char *what;
    setenv("XDG_RUNTIME_DIR", "/proc", 1);
    dp_tables_place_default(path, sizeof path);
    assert_memory_equal(path, "/dev/shm/deltaprof-", 19);
    assert_int_equal(dp_tables_place_open("/proc/deltaprof-test", true, &what), -ENOTSUP);
    assert_int_equal(dp_tables_place_open("/nowhere/deltaprof-test", true, &what), -ENOENT);
    assert_int_equal(dp_tables_place_open("/nowhere/deltaprof-test", false, &what), -ENOENT);
}

UNIT(NULL, NULL)
