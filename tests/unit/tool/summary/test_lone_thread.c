/* SPDX-License-Identifier: MIT */
/* Processes with one thread that wait for ever, or only seem to: which of them get a sentence, and which words it has.
 */
#include "tool/summary/lone_thread.h"

#include "support/unit.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 60000 };

static int pipes[2][2]; /* ends for reading, and for writing */
static struct dp_summary_sentences sentences;

/* A process that runs `does`, which does not return. It handles no signal. */
static pid_t start(void (*does)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    for (int sig = 1; sig < 32; sig++)
        signal(sig, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "diver");
    does();
    _exit(1);
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Waits until the process is blocked in the call. */
static void await_call(pid_t pid, long wanted)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)pid);
    for (int i = 0; i < WAIT_MS; i++, usleep(1000)) {
        FILE *file = fopen(path, "r");
        bool has_text = file && fgets(text, sizeof text, file);
        if (file)
            fclose(file);
        if (has_text && *text >= '0' && *text <= '9' && strtol(text, NULL, 10) == wanted)
            return;
    }
    fail_msg("process %d is not in call %ld", (int)pid, wanted);
}

static const char *sentence_of(pid_t pid)
{
    sentences.n = 0;
    dp_summary_lone_thread(&sentences, pid);
    assert_true(sentences.n < 2);
    return sentences.n ? sentences.at[0].text : "";
}

/* Other processes that begin and end are looked at, too, so it may take several looks. */
static const char *await_sentence(pid_t pid)
{
    const char *found = sentence_of(pid);
    for (int i = 0; i < WAIT_MS && !*found; i++, found = sentence_of(pid))
        usleep(1000);
    return found;
}

static void open_pipes(int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(pipe(pipes[i]), 0);
}

static void close_pipes(int n)
{
    for (int i = 0; i < n; i++)
        close(pipes[i][0]), close(pipes[i][1]);
}

/* ---- pipes ---- */

static void read_first(void)
{
    char byte;
    (void)!read(pipes[0][0], &byte, 1);
}

static void ignore_signal(int sig)
{
    (void)sig;
}

static void read_with_handler(void)
{
    signal(SIGTERM, ignore_signal);
    read_first();
}

static void fill_first(void)
{
    static char bytes[1 << 20];
    while (write(pipes[0][1], bytes, sizeof bytes) > 0)
        continue;
}

static void read_from_other(void)
{
    char byte;
    close(pipes[0][1]);
    close(pipes[1][0]);
    (void)!read(pipes[0][0], &byte, 1);
}

static void read_from_first(void)
{
    char byte;
    close(pipes[1][1]);
    close(pipes[0][0]);
    (void)!read(pipes[1][0], &byte, 1);
}

TEST(a_pipe_of_its_own_is_waited_for_for_ever)
{
    char wanted[200];
    for (int writes = 0; writes < 2; writes++) {
        open_pipes(1);
        pid_t pid = start(writes ? fill_first : read_first);
        await_call(pid, writes ? SYS_write : SYS_read);
        assert_string_equal(sentence_of(pid), ""); /* this process has both ends, too */
        close_pipes(1);
        snprintf(wanted, sizeof wanted,
                 "Deadlock of the only thread of process %d (diver): it is in %s() of a pipe of which no other process "
                 "has an end.",
                 (int)pid, writes ? "write" : "read");
        assert_string_equal(await_sentence(pid), wanted);
        assert_string_equal(sentences.at[0].kind, "stuck");
        end(pid);
    }
}

TEST(a_handler_may_write_to_the_pipe)
{
    open_pipes(1);
    pid_t pid = start(read_with_handler);
    await_call(pid, SYS_read);
    close_pipes(1);
    assert_string_equal(sentence_of(pid), "");
    end(pid);
}

TEST(two_processes_wait_for_each_other)
{
    char wanted[200];
    open_pipes(2);
    pid_t first = start(read_from_other), second = start(read_from_first);
    await_call(first, SYS_read);
    await_call(second, SYS_read);
    close_pipes(2);
    snprintf(
        wanted, sizeof wanted,
        "Deadlock of the only thread of process %d (diver): it is in read() of a pipe, and at the other end process %d "
        "waits for a pipe of this one.",
        (int)first, (int)second);
    assert_string_equal(await_sentence(first), wanted);
    end(first);
    assert_string_equal(sentence_of(first), "");
    end(second);
}

/* ---- mutexes ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pid_t *holder; /* shared with the process */

static void *lock_and_end(void *unused)
{
    pthread_mutex_lock(&mutex);
    *holder = (pid_t)syscall(SYS_gettid);
    return unused;
}

static void lock_after_a_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, lock_and_end, NULL);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&mutex);
}

static void lock_twice(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
}

static void wait_for_a_number(void)
{
    static uint32_t number;
    syscall(SYS_futex, &number, 0, 0, NULL, NULL, 0);
}

static void sleep_long(void)
{
    sleep(1000);
}

TEST(a_mutex_whose_holder_has_ended_is_waited_for_for_ever)
{
    char wanted[200];
    holder = mmap(NULL, sizeof *holder, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = start(lock_after_a_thread);
    await_call(pid, SYS_futex);
    await_sentence(pid); /* a thread that was joined may be listed for a moment */
    snprintf(wanted, sizeof wanted,
             "Deadlock of the only thread of process %d (diver): it waits for mutex 0x%llx, which is held by thread "
             "%d, which "
             "does not exist here any more.",
             (int)pid, (unsigned long long)(uintptr_t)&mutex, (int)*holder);
    assert_string_equal(await_sentence(pid), wanted);
    end(pid);
}

TEST(other_waits_may_end)
{
    static const struct {
        void (*does)(void);
        long call;
    } rows[] = {{lock_twice, SYS_futex}, {wait_for_a_number, SYS_futex}, {sleep_long, SYS_clock_nanosleep}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pid_t pid = start(rows[i].does);
        await_call(pid, rows[i].call);
        assert_string_equal(sentence_of(pid), "");
        end(pid);
    }
}

int main(void)
{
    if (geteuid() || access("/proc/self/syscall", R_OK)) /* descriptors of all processes are read */
        return 77;
    return run_unit(NULL, NULL);
}
