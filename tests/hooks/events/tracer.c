/* SPDX-License-Identifier: MIT */
/*
 * tracer uprobe|breakpoint LIBRARY ALLOC COUNT FREE COUNT PROGRAM [ARG...] - runs a program and prints each hit of the
 * two probes of a library, `alloc PTR SIZE BYTES` or `free PTR`, with the values of the argument registers. ALLOC and
 * FREE are where the probes lie, COUNT their counts of tracers: offsets in the file. The program
 * gets LD_PRELOAD from TRACED_PRELOAD.
 *
 *     uprobe       by the kernel, from the program's first instruction on; exit status 77 if it does not let us
 *     breakpoint   by ptrace, from the program's first SIGSTOP to its second: for systems without uprobes
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_PROBES = 2, SKIPPED = 77, RING_BYTES = 16 << 20 };

static const char *library;
static struct {
    const char *name;
    unsigned long probe, count; /* offsets in the file */
    unsigned n_arguments;
} probes[N_PROBES] = {{.name = "alloc", .n_arguments = 3}, {.name = "free", .n_arguments = 1}};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void print_hit(unsigned probe, const uint64_t *arguments)
{
    printf("%s", probes[probe].name);
    for (unsigned i = 0; i < probes[probe].n_arguments; i++)
        printf(" %llu", (unsigned long long)arguments[i]);
    putchar('\n');
}

/* Starts the program when a byte comes through the pipe. */
static pid_t start(char **argv, int *gate, int trace_me)
{
    int ends[2];
    if (pipe(ends))
        fail("pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 1)
            _exit(1);
        close(ends[0]);
        if (trace_me)
            ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        if (getenv("TRACED_PRELOAD"))
            setenv("LD_PRELOAD", getenv("TRACED_PRELOAD"), 1);
        execv(argv[0], argv);
        _exit(127);
    }
    close(ends[0]);
    *gate = ends[1];
    return pid;
}

/* ---- uprobes ---- */

#ifdef __x86_64__
/* bits and order of PERF_REG_X86_DX, SI and DI */
#define ARGUMENT_REGISTERS ((1u << 3) | (1u << 4) | (1u << 5))
static void sort_arguments(const uint64_t *regs, uint64_t *arguments)
{
    for (int i = 0; i < 3; i++)
        arguments[i] = regs[2 - i];
}
#else
#define ARGUMENT_REGISTERS 7u
static void sort_arguments(const uint64_t *regs, uint64_t *arguments)
{
    memcpy(arguments, regs, 3 * sizeof *regs);
}
#endif

static unsigned read_number(const char *path)
{
    unsigned n = 0;
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%u", &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

static int open_probe(unsigned type, unsigned i, pid_t pid)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = type,
        .config = (uint64_t)probes[i].count << 32,
        .config1 = (uintptr_t)library,
        .config2 = probes[i].probe,
        .sample_period = 1,
        .sample_type = PERF_SAMPLE_REGS_USER,
        .sample_regs_user = ARGUMENT_REGISTERS,
        .watermark = 0,
        .wakeup_events = 1000,
    };
    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Each probe has a ring, so the order of an alloc and a free is lost. */
static int trace_uprobes(char **argv)
{
    unsigned type = read_number("/sys/bus/event_source/devices/uprobe/type");
    int gate, status;
    if (!type)
        return SKIPPED;
    pid_t pid = start(argv, &gate, 0);
    int fds[N_PROBES];
    for (unsigned i = 0; i < N_PROBES; i++) {
        fds[i] = open_probe(type, i, pid);
        if (fds[i] < 0) {
            perror("perf_event_open");
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return SKIPPED;
        }
    }
    struct perf_event_mmap_page *rings[N_PROBES];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (unsigned i = 0; i < N_PROBES; i++) {
        rings[i] = mmap(NULL, RING_BYTES + page, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
        if (rings[i] == MAP_FAILED)
            fail("mmap of a ring");
    }
    if (write(gate, "x", 1) != 1)
        fail("write");
    waitpid(pid, &status, 0);
    for (unsigned i = 0; i < N_PROBES; i++) {
        const char *data = (const char *)rings[i] + rings[i]->data_offset;
        uint64_t head = __atomic_load_n(&rings[i]->data_head, __ATOMIC_ACQUIRE);
        for (uint64_t at = 0; at < head;) {
            struct perf_event_header header;
            memcpy(&header, data + at, sizeof header);
            if (header.type == PERF_RECORD_LOST)
                fail("events lost");
            uint64_t words[4], arguments[3]; /* the ABI of the registers, then the registers */
            memcpy(words, data + at + sizeof header, sizeof words);
            sort_arguments(words + 1, arguments);
            if (header.type == PERF_RECORD_SAMPLE && words[0])
                print_hit(i, arguments);
            at += header.size;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* ---- breakpoints ---- */

#ifdef __x86_64__
#define TRAP      0xCCul
#define TRAP_BITS 0xFFul
static uint64_t *pc_of(struct user_regs_struct *regs)
{
    return (uint64_t *)&regs->rip;
}
static void get_arguments(const struct user_regs_struct *regs, uint64_t *arguments)
{
    arguments[0] = regs->rdi;
    arguments[1] = regs->rsi;
    arguments[2] = regs->rdx;
}
enum { PC_AFTER_TRAP = 1, NOP_BYTES = 1 };
#else
#define TRAP      0xD4200000ul
#define TRAP_BITS 0xFFFFFFFFul
static uint64_t *pc_of(struct user_regs_struct *regs)
{
    return (uint64_t *)&regs->pc;
}
static void get_arguments(const struct user_regs_struct *regs, uint64_t *arguments)
{
    memcpy(arguments, regs->regs, 3 * sizeof *arguments);
}
enum { PC_AFTER_TRAP = 0, NOP_BYTES = 4 };
#endif

/* Where an offset of the library lies in the process, in a mapping with these rights. */
static unsigned long find_address(pid_t pid, unsigned long offset, char right)
{
    char path[64], line[4096], real[4096];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    if (!realpath(library, real))
        fail(library);
    FILE *f = fopen(path, "r");
    unsigned long start, end, from, found = 0;
    char rights[8];
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, real) && sscanf(line, "%lx-%lx %7s %lx", &start, &end, rights, &from) == 4 &&
            strchr(rights, right) && offset >= from && offset - from < end - start)
            found = start + offset - from;
    if (f)
        fclose(f);
    if (!found)
        fail("the library is not there");
    return found;
}

static void change_word(pid_t pid, unsigned long address, unsigned long bits, unsigned long to)
{
    errno = 0;
    unsigned long word = (unsigned long)ptrace(PTRACE_PEEKDATA, pid, (void *)address, NULL);
    if (errno || ptrace(PTRACE_POKEDATA, pid, (void *)address, (void *)((word & ~bits) | to)))
        fail("ptrace");
}

static int trace_breakpoints(char **argv)
{
    int gate, status, n_stops = 0;
    setenv("STOP", "1", 1);
    pid_t pid = start(argv, &gate, 1);
    unsigned long at[N_PROBES];
    if (write(gate, "x", 1) != 1)
        fail("write");
    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
        int number = WSTOPSIG(status);
        if (number == SIGSTOP && n_stops++ == 0)
            for (unsigned i = 0; i < N_PROBES; i++) {
                at[i] = find_address(pid, probes[i].probe, 'x');
                change_word(pid, at[i], TRAP_BITS, TRAP);
                change_word(pid, find_address(pid, probes[i].count, 'w'), 0xFFFF, 1);
            }
        else if (number == SIGSTOP)
            for (unsigned i = 0; i < N_PROBES; i++)
                change_word(pid, find_address(pid, probes[i].count, 'w'), 0xFFFF, 0);
        if (number == SIGTRAP && n_stops == 1) {
            struct user_regs_struct regs;
            struct iovec all = {&regs, sizeof regs};
            if (ptrace(PTRACE_GETREGSET, pid, (void *)1 /* NT_PRSTATUS */, &all))
                fail("registers");
            unsigned long pc = *pc_of(&regs) - PC_AFTER_TRAP;
            for (unsigned i = 0; i < N_PROBES; i++)
                if (pc == at[i]) {
                    uint64_t arguments[3];
                    get_arguments(&regs, arguments);
                    print_hit(i, arguments);
                    *pc_of(&regs) = pc + NOP_BYTES;
                    if (ptrace(PTRACE_SETREGSET, pid, (void *)1, &all))
                        fail("registers");
                }
        }
        int passed_on = number == SIGTRAP || number == SIGSTOP ? 0 : number;
        ptrace(PTRACE_CONT, pid, NULL, (void *)(long)passed_on);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    if (argc < 8)
        return 2;
    library = argv[2];
    setvbuf(stdout, NULL, _IOLBF, 0); /* the program writes there too */
    for (unsigned i = 0; i < N_PROBES; i++) {
        probes[i].probe = strtoul(argv[3 + 2 * i], NULL, 0);
        probes[i].count = strtoul(argv[4 + 2 * i], NULL, 0);
    }
    return (strcmp(argv[1], "uprobe") ? trace_breakpoints : trace_uprobes)(argv + 7);
}
