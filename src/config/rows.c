/* SPDX-License-Identifier: MIT */
/*
 * config/rows.c - the table of keys: where a value lies in struct dp_config, how its text is read, what range it
 * has, when it may change. Defaults are texts that go through the same readers, so --help shows the true defaults.
 */
#include "config/row.h"

#include "base/text.h"
#include "profile/kinds.h"

#include <limits.h>
#include <string.h>

#define AT(field)  offsetof(struct dp_config, field)
#define OR_ZERO(n) (-(n)) /* allowed: 0, and n or more */
#define MS         INT64_C(1000000)
#define HOUR       (3600000 * MS)

/* clang-format off */
static const struct dp_config_row rows[] = {
    {{"heap_rate", "SIZE", "512k", "mean bytes between heap samples; 1 = every allocation, 0 = heap off"},
     DP_KEY_SIZE, AT(heap_rate), 0, INT64_C(1) << 31, DP_KEY_LIVE, NULL},
    {{"mutex_rate", "N", "1", "of the unlocks that other threads waited for, record 1 in N, with N times its values; 0 = mutex off"},
     DP_KEY_COUNT, AT(mutex_rate), 0, 1000000000, DP_KEY_LIVE, NULL},
    {{"block_rate", "TIME", "10us",
      "waits at least this long are all recorded, shorter ones at random, scaled up; 1ns = all, 0 = block off"},
     DP_KEY_TIME, AT(block_rate_ns), 0, HOUR, DP_KEY_LIVE, NULL},
    {{"cpu_rate", "TIME", "10ms under run, else 0", "CPU time between two samples of a thread; 0 = only for profile?seconds=N"},
     DP_KEY_TIME, AT(cpu_rate_ns), OR_ZERO(MS / 10), 60 * 1000 * MS, DP_KEY_LIVE, "0"},
    {{"tables", "DIR", "the user's directory in a tmpfs, under run and LD_PRELOAD; else none",
      "directory in a tmpfs for tables that other processes can read, also after a kill -9; none = private memory"},
     DP_KEY_FILE, AT(tables), 0, 0, 0, "none"},
    {{"wall_rate", "TIME", "0", "time between two looks at where each thread is, such as 100ms; 0 = only for wall?seconds=N"},
     DP_KEY_TIME, AT(wall_rate_ns), OR_ZERO(MS), 60 * 1000 * MS, DP_KEY_LIVE, NULL},
    {{"interval", "TIME", "15s", "how often profiles are written; 0 = only on request and at exit"},
     DP_KEY_TIME, AT(interval_ns), OR_ZERO(MS), 8760 * HOUR, DP_KEY_LIVE, NULL},
    {{"out", "DIR", ". under run and LD_PRELOAD without listen, else none",
      "directory for profile files, %e = program, %p = pid, %h = host, %% = %; none = no files"},
     DP_KEY_DIRECTORY, AT(out), 0, 0, 0, "none"},
    {{"keep", "N", "5760", "most ticks kept per process; clearly beyond as many in a directory, the oldest of ended processes are deleted; 0 = all"},
     DP_KEY_COUNT, AT(keep), 0, 1000000000, 0, NULL},
    {{"listen", "HOST:PORT|HOST:PORT-PORT|unix:PATH", "none", "where the embedded endpoint answers /debug/pprof/"},
     DP_KEY_ADDRESS, AT(listen), 0, 0, 0, NULL},
    {{"token", "FILE", "none", "file whose first line each request must have; if other machines can reach listen, set it, or token=none"},
     DP_KEY_FILE, AT(token), 0, 0, 0, NULL},
    {{"cursor_ttl", "TIME", "24h", "how long a named cursor is kept after its last use"},
     DP_KEY_TIME, AT(cursor_ttl_ns), 1000 * MS, 8760 * HOUR, 0, NULL},
    {{"cmdline", "on|off", "on", "whether the endpoint shows the program's arguments, at cmdline"},
     DP_KEY_SWITCH, AT(cmdline), 0, 0, 0, NULL},
    {{"depth", "N", "128, in Python 512", "most frames kept per stack"},
     DP_KEY_COUNT, AT(depth), 1, 1024, 0, "128"},
    {{"memory", "SIZE", "64M", "most memory that the profiler may use in a process, symbols included"},
     DP_KEY_SIZE, AT(memory), 4 << 20, INT64_C(1) << 40, 0, NULL},
    {{"unwind", "auto|fp|libunwind", "auto", "how stacks are walked: by unwind tables, by frame pointers, or by libunwind alone"},
     DP_KEY_CHOICE, AT(unwind), 0, 0, 0, NULL},
    {{"python", "auto|frames|off", "auto", "auto = Python's functions and lines in stacks, and its object allocator; frames = only the stacks"},
     DP_KEY_CHOICE, AT(python), 0, 0, 0, NULL},
    {{"symbolize", "none|functions|lines", "functions", "names in profiles: none, functions from symbol tables, or also lines from DWARF"},
     DP_KEY_CHOICE, AT(symbolize), 0, 0, DP_KEY_LIVE | DP_KEY_DELTA, NULL},
    {{"address", "runtime|elf", "runtime", "addresses as in this process, or as in the ELF files (for Pyroscope)"},
     DP_KEY_CHOICE, AT(address), 0, 0, DP_KEY_DELTA, NULL},
    {{"types", "all|alloc|inuse|waste", "all", "which heap values are written; waste = all, and what of memory in use is resident or zeros"},
     DP_KEY_CHOICE, AT(types), 0, 0, DP_KEY_DELTA, NULL},
    {{"max_samples", "N", "0", "if there are more rows than this, the smallest are summed up as [other]; 0 = never"},
     DP_KEY_COUNT, AT(max_samples), 0, 1000000000, DP_KEY_DELTA, NULL},
    {{"stuck", "TIME", "none", "log a line when a thread has waited this long for a lock that a thread holds; name deadlocks"},
     DP_KEY_TIME, AT(stuck_ns), OR_ZERO(MS), 8760 * HOUR, DP_KEY_LIVE, NULL},
    {{"lock_names", "FILE", "none", "file with lines PATTERN KIND, which name the functions that wait in the program's own futex locks"},
     DP_KEY_FILE, AT(lock_names), 0, 0, 0, NULL},
    {{"thread", "on|off", "off", "add the label thread, with the name of the thread"},
     DP_KEY_SWITCH, AT(thread), 0, 0, 0, NULL},
    {{"trace", "on|off", "off", "add the label trace_id, with the thread's trace; after some 1,000 traces it is [other]"},
     DP_KEY_SWITCH, AT(trace), 0, 0, 0, NULL},
    {{"age", "on|off", "off", "divide memory in use by the label age; add how long freed blocks lived"},
     DP_KEY_SWITCH, AT(age), 0, 0, DP_KEY_DELTA, NULL},
    {{"events", "on|off|DIR", "off", "write each sampled allocation and recorded wait with its time, to files of kind events, in out or in DIR"},
     DP_KEY_EVENTS, AT(events), 0, 0, 0, NULL},
    {{"mmap", "on|off", "off", "record mappings that the program makes itself, as the heap mmap; those of files as mmap-file"},
     DP_KEY_SWITCH, AT(mmap), 0, 0, 0, NULL},
    {{"inside", "on|off", "on", "record what a jemalloc or tcmalloc inside the executable allocates, by its own hooks"},
     DP_KEY_SWITCH, AT(inside), 0, 0, 0, NULL},
    {{"start", "on|off", "on", "off = profile nothing until deltaprof on PID asks for it"},
     DP_KEY_SWITCH, AT(start), 0, 0, 0, NULL},
    {{"exe", "GLOBS", "*", "profile only programs whose file name matches one of these globs, a|b*"},
     DP_KEY_GLOBS, AT(exe), 0, 0, 0, NULL},
    {{"signals", "on|off", "on under run and LD_PRELOAD, else off",
      "if the program does not handle SIGINT, SIGTERM, SIGHUP or a crash, they first write the last profile"},
     DP_KEY_SWITCH, AT(signals), 0, 0, 0, "off"},
    {{"signal", "SIGNAL", "none", "signal that requests profiles now, such as USR2"},
     DP_KEY_SIGNAL, AT(signal), 0, 0, 0, NULL},
    {{"exit_timeout", "TIME", "2s", "longest time that exit waits for the last profile"},
     DP_KEY_TIME, AT(exit_timeout_ns), 0, HOUR, 0, NULL},
    {{"push", "URL", "none", "database to which deltaprof run sends the files in out; pyroscope+http://HOST:PORT, parca+, otlp+, pprof+"},
     DP_KEY_RECEIVER, AT(push), 0, 0, 0, NULL},
    {{"log", "stderr|none|info|FILE", "stderr", "where messages go; info = more messages, to stderr"},
     DP_KEY_LOG, AT(log), 0, 0, 0, NULL},
};
/* clang-format on */
enum { N_ROWS = sizeof rows / sizeof *rows };
_Static_assert(N_ROWS <= 64, "struct dp_config's `set` has a bit for each key");

const struct dp_config_row *dp_config_row(size_t i)
{
    return i < N_ROWS ? &rows[i] : NULL;
}

const struct dp_config_key *dp_config_key(size_t i)
{
    return i < N_ROWS ? &rows[i].shown : NULL;
}

bool dp_config_find(const char *key, size_t *i)
{
    for (*i = 0; *i < N_ROWS; ++*i)
        if (strcmp(rows[*i].shown.key, key) == 0)
            return true;
    return false;
}

/* Keys that switch a kind on are rates: numbers, of which 0 is off. */
bool dp_config_kind_is_on(const struct dp_config *conf, unsigned kind)
{
    const char *keys = dp_kind_table[kind].keys;
    bool is_on = keys != NULL;
    for (size_t i = 0; is_on && i < N_ROWS; i++) {
        const char *key = rows[i].shown.key, *at = strstr(keys, key);
        if (at && (at == keys || at[-1] == ',') && at[strlen(key)] == '=')
            is_on = *(const int64_t *)((const char *)conf + rows[i].at) != 0;
    }
    return is_on;
}

/* The number of letters to change to make one word from the other; only the first 15 letters of each count. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[16];
    size_t n = strnlen(b, 15);
    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 0; a[i] && i < 15; i++) {
        unsigned corner = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < n; j++) {
            unsigned best = corner + (a[i] != b[j]);
            corner = row[j + 1];
            if (corner + 1 < best)
                best = corner + 1;
            if (row[j] + 1 < best)
                best = row[j] + 1;
            row[j + 1] = best;
        }
    }
    return row[n];
}

void dp_config_unknown(struct dp_config_error *error, const char *word)
{
    size_t closest = 0;
    unsigned least = UINT_MAX;
    for (size_t i = 0; i < N_ROWS; i++) {
        unsigned d = distance(word, rows[i].shown.key);
        if (d < least) {
            least = d;
            closest = i;
        }
    }
    if (least <= 3 && least < strlen(rows[closest].shown.key)) {
        dp_text_format(error->line, sizeof error->line, "%s: no such key, did you mean %s=?", word,
                       rows[closest].shown.key);
        return;
    }
    size_t n = dp_text_format(error->line, sizeof error->line, "%s: no such key; there are", word);
    for (size_t i = 0; i < N_ROWS; i++)
        n += dp_text_format(error->line + n, sizeof error->line - n, " %s", rows[i].shown.key);
}
