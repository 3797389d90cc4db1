/* SPDX-License-Identifier: MIT */
/*
 * base/config.c - the table of keys, and how a text is read by it.
 *
 * A key is one row: where its value lies in struct dp_config, how its text is read, what range it has, when it may
 * change. Defaults are texts that go through the same readers, so what --help shows is what is in force. A text is
 * parsed into a copy, so that a bad word changes nothing. No allocation, no stdio: it runs inside a program's first
 * microseconds.
 */
#include "base/config.h"

#include "base/address.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum type { SIZE, TIME, COUNT, CHOICE, SWITCH, SIGNAL, GLOBS, DIRECTORY, LOG, ADDRESS, FILE_PATH };
enum { LIVE = 1, DELTA = 2 };

struct entry {
    struct dp_config_key shown;
    enum type type;
    size_t at;           /* offset in struct dp_config */
    int64_t min, max;    /* SIZE bytes, TIME ns, COUNT; 0 is allowed where min is negative: off or none */
    unsigned when;       /* LIVE: deltaprof_set; DELTA: deltaprof_delta_set */
    const char *initial; /* what is in force where value_default is a sentence */
};

#define AT(field)  offsetof(struct dp_config, field)
#define OR_ZERO(n) (-(n)) /* a minimum of n, or 0 */
#define MS         INT64_C(1000000)
#define HOUR       (3600000 * MS)

/* clang-format off */
static const struct entry table[] = {
    {{"heap_rate", "SIZE", "512k", "mean bytes between heap samples; 1 = every allocation, 0 = heap off"},
     SIZE, AT(heap_rate), 0, INT64_C(1) << 31, LIVE, NULL},
    {{"mutex_rate", "N", "1", "record 1 in n releases that made somebody wait, scaled back; 0 = mutex off"},
     COUNT, AT(mutex_rate), 0, 1000000000, LIVE, NULL},
    {{"block_rate", "TIME", "10us",
      "waits at least this long are always recorded, shorter ones by chance, scaled back; 1ns = all, 0 = block off"},
     TIME, AT(block_rate_ns), 0, HOUR, LIVE, NULL},
    {{"interval", "TIME", "15s", "how often profiles are written; 0 = only on request and at exit"},
     TIME, AT(interval_ns), OR_ZERO(MS), 8760 * HOUR, LIVE, NULL},
    {{"out", "DIR", ". under run and LD_PRELOAD, else none",
      "directory for profile files, may contain %e %p %h %%; none = no files"},
     DIRECTORY, AT(out), 0, 0, 0, "none"},
    {{"keep", "N", "5760", "ticks of files kept per process, the oldest deleted; 0 = all"},
     COUNT, AT(keep), 0, 1000000000, 0, NULL},
    {{"listen", "HOST:PORT|HOST:PORT-PORT|unix:PATH", "none", "where the embedded endpoint answers /debug/pprof/"},
     ADDRESS, AT(listen), 0, 0, 0, NULL},
    {{"token", "FILE", "none", "file whose first line the endpoint asks for; needed beyond this machine, or token=none said"},
     FILE_PATH, AT(token), 0, 0, 0, NULL},
    {{"cursor_ttl", "TIME", "24h", "how long a named cursor outlives its last use"},
     TIME, AT(cursor_ttl_ns), 1000 * MS, 8760 * HOUR, 0, NULL},
    {{"cmdline", "on|off", "on", "whether the endpoint answers cmdline"},
     SWITCH, AT(cmdline), 0, 0, 0, NULL},
    {{"depth", "N", "128", "most frames kept per stack"},
     COUNT, AT(depth), 1, 1024, 0, NULL},
    {{"memory", "SIZE", "64M", "most memory that the profiler may use in a process, symbols included"},
     SIZE, AT(memory), 4 << 20, INT64_C(1) << 40, 0, NULL},
    {{"unwind", "auto|fp|libunwind", "auto", "how stacks are walked: unwind tables, frame pointers, or libunwind alone"},
     CHOICE, AT(unwind), 0, 0, 0, NULL},
    {{"symbolize", "none|functions|lines", "functions", "names in profiles: none, by symbol tables, or by DWARF"},
     CHOICE, AT(symbolize), 0, 0, LIVE | DELTA, NULL},
    {{"address", "runtime|elf", "runtime", "addresses as in this process, or as in the ELF files (for Pyroscope)"},
     CHOICE, AT(address), 0, 0, DELTA, NULL},
    {{"types", "all|alloc|inuse", "all", "which heap values are written"},
     CHOICE, AT(types), 0, 0, DELTA, NULL},
    {{"max_samples", "N", "0", "fold the smallest rows into [other] beyond this many; 0 = never"},
     COUNT, AT(max_samples), 0, 1000000000, DELTA, NULL},
    {{"exe", "GLOBS", "*", "profile only programs whose file name matches one of these globs, a|b*"},
     GLOBS, AT(exe), 0, 0, 0, NULL},
    {{"signals", "on|off", "on under run and LD_PRELOAD, else off",
      "SIGINT, SIGTERM and SIGHUP, where not handled, deliver the last profile first"},
     SWITCH, AT(signals), 0, 0, 0, "off"},
    {{"signal", "SIGNAL", "none", "a signal that asks for profiles now, e.g. USR2"},
     SIGNAL, AT(signal), 0, 0, 0, NULL},
    {{"exit_timeout", "TIME", "2s", "the longest that exit may wait for the last profile"},
     TIME, AT(exit_timeout_ns), 0, HOUR, 0, NULL},
    {{"log", "stderr|none|info|FILE", "stderr", "where messages go; info = stderr, more of them"},
     LOG, AT(log), 0, 0, 0, NULL},
};
/* clang-format on */
enum { N_KEYS = sizeof table / sizeof *table };
_Static_assert(N_KEYS <= 64, "struct dp_config's `set` has a bit for each key");

/* ---- reading one value: 0, or -EINVAL with what is allowed in error ---------------------------------------------- */

static void allowed(struct dp_config_error *error, const struct entry *e, const char *value, const char *what)
{
    dp_text_format(error->line, sizeof error->line, "%s=%s: %s", e->shown.key, value, what);
}

static void allowed_range(struct dp_config_error *error, const struct entry *e, const char *value, const char *kind)
{
    char min[32], max[32];
    int64_t least = e->min < 0 ? -e->min : e->min;
    void (*show)(char *, size_t, int64_t) = e->type == SIZE   ? dp_text_size
                                            : e->type == TIME ? dp_text_time
                                                              : dp_text_count;
    show(min, sizeof min, least);
    show(max, sizeof max, e->max);
    dp_text_format(error->line, sizeof error->line, "%s=%s: %s from %s to %s%s", e->shown.key, value, kind, min, max,
                   e->min < 0 ? ", or 0" : "");
}

static int read_number(const struct entry *e, const char *value, int64_t *out, struct dp_config_error *error)
{
    static const char *const kinds[] = {
        [SIZE] = "a size (k M G are powers of 1024)",
        [TIME] = "a time with its unit (ns us ms s m h)",
        [COUNT] = "a number",
    };
    int64_t n = 0;
    int bad = 0;
    if (strcmp(value, "none") != 0)
        bad = e->type == SIZE   ? dp_text_read_size(value, &n)
              : e->type == TIME ? dp_text_read_time(value, &n)
                                : dp_text_read_count(value, &n);
    int64_t least = e->min < 0 && n != 0 ? -e->min : e->min;
    if (bad || n < least || n > e->max) {
        allowed_range(error, e, value, kinds[e->type]);
        return -EINVAL;
    }
    *out = n;
    return 0;
}

/* The words of a choice are its shown type; their order is the enum's. */
static int read_choice(const struct entry *e, const char *value, unsigned *out, struct dp_config_error *error)
{
    unsigned i = 0;
    for (const char *word = e->shown.type; *word; i++) {
        size_t n = strcspn(word, "|");
        if (strlen(value) == n && memcmp(value, word, n) == 0) {
            *out = i;
            return 0;
        }
        word += n + (word[n] == '|');
    }
    allowed(error, e, value, e->shown.type);
    return -EINVAL;
}

static int read_signal(const struct entry *e, const char *value, int *out, struct dp_config_error *error)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"none", 0},           {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"URG", SIGURG}, {"WINCH", SIGWINCH},
                   {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"IO", SIGIO},     {"PWR", SIGPWR}};
    const char *name = strncasecmp(value, "SIG", 3) == 0 ? value + 3 : value;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strcasecmp(name, signals[i].name) == 0) {
            *out = signals[i].number;
            return 0;
        }
    int64_t n;
    if (strncasecmp(name, "RTMIN+", 6) == 0 && dp_text_read_count(name + 6, &n) == 0 && n <= SIGRTMAX - SIGRTMIN) {
        *out = SIGRTMIN + (int)n;
        return 0;
    }
    allowed(error, e, value, "USR1, USR2, URG, WINCH, VTALRM, PROF, IO, PWR, RTMIN+N, or none");
    return -EINVAL;
}

static int read_text(const struct entry *e, const char *value, char *out, struct dp_config_error *error)
{
    bool is_path = e->type == LOG && strchr(value, '/');
    if (e->type == LOG && !is_path && strcmp(value, "stderr") != 0 && strcmp(value, "none") != 0 &&
        strcmp(value, "info") != 0) {
        allowed(error, e, value, "stderr, none, info, or a file as a path with a / in it");
        return -EINVAL;
    }
    for (const char *p = e->type == DIRECTORY ? strchr(value, '%') : NULL; p; p = strchr(p + 2, '%'))
        if (!p[1] || !strchr("eph%", p[1])) {
            allowed(error, e, value, "after % comes e (program), p (pid), h (host) or another %");
            return -EINVAL;
        }
    bool none = e->type != LOG && e->type != GLOBS && strcmp(value, "none") == 0;
    struct dp_endpoint_address address;
    if (e->type == ADDRESS && !none && dp_endpoint_address_parse(&address, value)) {
        allowed(error, e, value,
                "HOST:PORT, HOST:PORT-PORT (an IP address, [IPv6], localhost or *), unix:PATH, or none");
        return -EINVAL;
    }
    strcpy(out, none ? "" : value); /* fits: the reader of the pair saw to it */
    return 0;
}

static int read_value(struct dp_config *conf, size_t key, const char *value, struct dp_config_error *error)
{
    const struct entry *e = &table[key];
    void *at = (char *)conf + e->at;
    unsigned choice = 0;
    int rc;
    if (!*value) {
        dp_text_format(error->line, sizeof error->line, "%s=: no value; it takes %s, default %s", e->shown.key,
                       e->shown.type, e->shown.value_default);
        return -EINVAL;
    }
    switch (e->type) {
    case SIZE:
    case TIME:
    case COUNT:
        return read_number(e, value, at, error);
    case CHOICE:
        rc = read_choice(e, value, &choice, error);
        *(unsigned *)at = choice;
        return rc;
    case SWITCH:
        rc = strcmp(value, "none") == 0 ? (choice = 1, 0) : read_choice(e, value, &choice, error);
        *(bool *)at = choice == 0;
        return rc;
    case SIGNAL:
        return read_signal(e, value, at, error);
    default:
        return read_text(e, value, at, error);
    }
}

/* ---- reading a text --------------------------------------------------------------------------------------------- */

static size_t find_key(const char *word)
{
    size_t i = 0;
    while (i < N_KEYS && strcmp(table[i].shown.key, word) != 0)
        i++;
    return i;
}

/* How many letters must change to make one word of the other; at most 15 letters of each count. */
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

static void unknown_key(struct dp_config_error *error, const char *word)
{
    size_t closest = 0;
    unsigned least = UINT_MAX;
    for (size_t i = 0; i < N_KEYS; i++) {
        unsigned d = distance(word, table[i].shown.key);
        if (d < least) {
            least = d;
            closest = i;
        }
    }
    if (least <= 3 && least < strlen(table[closest].shown.key)) {
        dp_text_format(error->line, sizeof error->line, "%s: no such key, did you mean %s=?", word,
                       table[closest].shown.key);
        return;
    }
    size_t n = dp_text_format(error->line, sizeof error->line, "%s: no such key; there are", word);
    for (size_t i = 0; i < N_KEYS; i++)
        n += dp_text_format(error->line + n, sizeof error->line - n, " %s", table[i].shown.key);
}

/* A word without `=`: a key that lacks its value, or the directory that somebody meant. */
static void bare_word(struct dp_config_error *error, const char *word)
{
    size_t key = find_key(word);
    if (key < N_KEYS)
        dp_text_format(error->line, sizeof error->line, "%s: no value; it takes %s, default %s", word,
                       table[key].shown.type, table[key].shown.value_default);
    else
        dp_text_format(error->line, sizeof error->line, "%s: not KEY=VALUE, did you mean out=%s?", word, word);
}

/* Copies the pair at text, `\,` made a comma, and moves text behind it. False: longer than there is room for. */
static bool next_pair(const char **text, char *pair, size_t room)
{
    const char *p = *text;
    size_t n = 0;
    bool fits = true;
    while (*p && *p != ',') {
        p += p[0] == '\\' && p[1] == ',';
        if (n + 1 < room)
            pair[n++] = *p;
        else
            fits = false;
        p++;
    }
    pair[n] = '\0';
    *text = p + (*p == ',');
    return fits;
}

static int parse(struct dp_config *conf, const char *text, unsigned when, struct dp_config_error *error)
{
    struct dp_config next = *conf;
    char pair[DP_CONFIG_TEXT + 32];
    for (const char *rest = text ? text : ""; *rest;) {
        bool fits = next_pair(&rest, pair, sizeof pair);
        if (!*pair)
            continue; /* ",," and a comma at the end: texts are pasted together */
        char *equals = strchr(pair, '=');
        if (!equals) {
            bare_word(error, pair);
            return -EINVAL;
        }
        *equals = '\0';
        const char *value = equals + 1;
        size_t key = find_key(pair);
        if (key == N_KEYS) {
            unknown_key(error, pair);
            return -EINVAL;
        }
        if (when && !(table[key].when & when)) {
            dp_text_format(error->line, sizeof error->line, "%s: cannot change %s", pair,
                           when == LIVE ? "while the profiler runs" : "for one consumer");
            return -EINVAL;
        }
        if (!fits || strlen(value) >= DP_CONFIG_TEXT) {
            dp_text_format(error->line, sizeof error->line, "%s: its value is longer than %d bytes", pair,
                           DP_CONFIG_TEXT - 1);
            return -EINVAL;
        }
        if (read_value(&next, key, value, error))
            return -EINVAL;
        next.set |= UINT64_C(1) << key;
    }
    *conf = next;
    return 0;
}

void dp_config_init(struct dp_config *conf)
{
    struct dp_config_error error;
    memset(conf, 0, sizeof *conf);
    for (size_t i = 0; i < N_KEYS; i++)
        read_value(conf, i, table[i].initial ? table[i].initial : table[i].shown.value_default, &error);
}

int dp_config_parse(struct dp_config *conf, const char *text, struct dp_config_error *error)
{
    return parse(conf, text, 0, error);
}

int dp_config_parse_live(struct dp_config *conf, const char *text, struct dp_config_error *error)
{
    return parse(conf, text, LIVE, error);
}

int dp_config_parse_delta(struct dp_config *conf, const char *text, struct dp_config_error *error)
{
    return parse(conf, text, DELTA, error);
}

int dp_config_check(const struct dp_config *conf, struct dp_config_error *error)
{
    struct dp_endpoint_address address;
    if (conf->listen[0] && !dp_endpoint_address_parse(&address, conf->listen) && !address.local &&
        !dp_config_given(conf, "token")) {
        dp_text_format(
            error->line, sizeof error->line,
            "listen=%s can be reached from other machines: it needs token=FILE, or token=none if anybody may ask",
            conf->listen);
        return -EINVAL;
    }
    return 0;
}

bool dp_config_given(const struct dp_config *conf, const char *key)
{
    size_t i = find_key(key);
    return i < N_KEYS && (conf->set >> i & 1);
}

/* One glob, n bytes of it, against the whole name: on a mismatch the last `*` takes one byte more. */
static bool glob(const char *g, size_t n, const char *name)
{
    const char *end = g + n, *star = NULL, *from = NULL;
    while (*name) {
        if (g < end && *g == '*') {
            star = g++;
            from = name;
        } else if (g < end && (*g == '?' || *g == *name)) {
            g++;
            name++;
        } else if (star) {
            g = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (g < end && *g == '*')
        g++;
    return g == end;
}

bool dp_config_matches(const char *globs, const char *name)
{
    for (;;) {
        size_t n = strcspn(globs, "|");
        if (glob(globs, n, name))
            return true;
        if (!globs[n])
            return false;
        globs += n + 1;
    }
}

const struct dp_config_key *dp_config_key(size_t i)
{
    return i < N_KEYS ? &table[i].shown : NULL;
}
