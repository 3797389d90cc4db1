/* SPDX-License-Identifier: MIT */
/*
 * endpoint/request.c - parses the method and the target of a request.
 *
 * All checks are done here, before a cursor or a table is used, so that a bad request changes nothing and a fuzzer
 * reaches every branch without a socket. Parameters that scrapers add (gc, and seconds for a delta) and unknown ones
 * are ignored; a known one with a bad value is an error that names the allowed values.
 */
#include "endpoint/request.h"

#include "base/text.h"
#include "profile/kinds.h"
#include "profile/lock_kinds.h"

#include <stdio.h>
#include <string.h>

/* The paths that the pprof of gperftools uses. */
static const struct {
    const char *path, *name;
} aliases[] = {
    {"heap", "heap"}, {"contention", "mutex"}, {"profile", "profile"}, {"symbol", "symbol"}, {"cmdline", "cmdline"},
};

/* The pages that are no profiles. */
static const struct {
    const char *name;
    enum dp_http_request_page page;
} others[] = {
    {"", DP_HTTP_PAGE_INDEX},    {"symbol", DP_HTTP_PAGE_SYMBOL}, {"cmdline", DP_HTTP_PAGE_CMDLINE},
    {"view", DP_HTTP_PAGE_VIEW}, {"waits", DP_HTTP_PAGE_WAITS},   {"metrics", DP_HTTP_PAGE_METRICS},
};

static void refuse(struct dp_http_request *r, int status, const char *message)
{
    r->page = DP_HTTP_PAGE_ERROR;
    r->status = status;
    r->message = message;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes %XX and + of [from, to) into text. False: too long, malformed, or a NUL inside. */
static bool decode(const char *from, const char *to, char *text, size_t size)
{
    size_t n = 0;
    while (from < to) {
        int c = (unsigned char)*from++;
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            if (to - from < 2 || hex(from[0]) < 0 || hex(from[1]) < 0)
                return false;
            c = hex(from[0]) * 16 + hex(from[1]);
            from += 2;
        }
        if (c == 0 || n + 1 >= size)
            return false;
        text[n++] = (char)c;
    }
    text[n] = 0;
    return true;
}

static bool number(const char *text, uint64_t max, uint64_t *value)
{
    uint64_t n = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        uint64_t digit = (uint64_t)*text - '0';
        if (digit > 9 || digit > max || n > (max - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *value = n;
    return true;
}

static bool cursor_name(const char *text)
{
    if (!*text || strlen(text) > DP_CURSOR_NAME_MAX)
        return false;
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] == 0;
}

/* The number of the word that text is; -1: none of them. words: NULL is behind the last. */
static int choice(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(text, words[i]))
            return i;
    return -1;
}

/* Adds the lock kinds that text names, separated by commas. False: one is unknown. */
static bool lock_kinds(const char *text, unsigned *locks)
{
    for (;; text++) {
        size_t n_bytes = strcspn(text, ",");
        unsigned kind = dp_lock_kind_named(text, n_bytes);
        if (!kind)
            return false;
        *locks |= 1u << kind;
        text += n_bytes;
        if (!*text)
            return true;
    }
}

static void pid_parameter(struct dp_http_request *r, const char *value, bool whole)
{
    uint64_t n;
    if (!whole || !number(value, INT32_MAX, &n) || !n)
        refuse(r, 400, "pid: the number of a process");
    else
        r->pid = (int)n;
}

/* `whole`: the value was decoded; else it is "". */
static void parameter(struct dp_http_request *r, const char *key, const char *value, bool whole)
{
    static const char *const types[] = {"all", "alloc", "inuse", "waste", "idle", NULL}; /* enum dp_types */
    static const char *const symbolize[] = {"none", "functions", "lines", NULL};         /* enum dp_symbolize */
    const char *wrong = NULL;
    uint64_t n;
    int i;

    if (!strcmp(key, "seconds") && !r->profile->is_delta) {
        if (!whole || !number(value, DP_SECONDS_MAX, &n))
            wrong = "seconds: a whole number from 0 to 3600";
        else if (n || !r->profile->seconds)
            r->seconds = (int64_t)n;
    } else if (!strcmp(key, "debug")) {
        if (!whole || !number(value, 2, &n))
            wrong = "debug: 0, 1 or 2";
        else
            r->text = n != 0;
    } else if (!strcmp(key, "cursor") && r->profile->is_delta) {
        if (!whole || !cursor_name(value))
            wrong = "cursor: 1 to 64 letters, digits, '.', '_' or '-'";
        else
            strcpy(r->cursor, value);
    } else if (!strcmp(key, "lock") && dp_kind_table[r->kind].has_locks) {
        if (!whole || !lock_kinds(value, &r->locks))
            wrong = "lock: mutex, rwlock-read, rwlock-write, cond, sem, spin, barrier, join, rwlock, once, park, futex "
                    "or gil; several with ','";
    } else if (!strcmp(key, "from") && r->profile->is_delta) {
        if (!whole || strcmp(value, "now"))
            wrong = "from: only 'now'";
        else
            r->from_now = true;
    } else if (!strcmp(key, "after") && r->profile->is_delta) {
        if (!whole || !number(value, UINT64_MAX, &n))
            wrong = "after: the X-Deltaprof-Seq of the last reply that arrived, or 0";
        else
            r->after = n, r->acknowledges = true;
    } else if (!strcmp(key, "pid")) {
        pid_parameter(r, value, whole);
    } else if (!strcmp(key, "types")) {
        if (!whole || (i = choice(value, types)) < 0)
            wrong = "types: all, alloc, inuse, waste or idle";
        else
            r->types = (enum dp_types)i, r->has_types = true;
    } else if (!strcmp(key, "symbolize")) {
        if (!whole || (i = choice(value, symbolize)) < 0)
            wrong = "symbolize: none, functions or lines";
        else
            r->symbolize = (enum dp_symbolize)i, r->has_symbolize = true;
    } else if (!strcmp(key, "max_samples")) {
        if (!whole || !number(value, DP_MAX_SAMPLES_MAX, &n))
            wrong = "max_samples: a whole number up to 1000000000, 0 for no limit";
        else
            r->max_samples = (int64_t)n, r->has_max_samples = true;
    } else if (!strcmp(key, "age")) {
        if (!whole || !number(value, 1, &n))
            wrong = "age: 1, what is in use split by age, or 0";
        else
            r->age = n != 0, r->has_age = true;
    }
    if (wrong)
        refuse(r, 400, wrong);
}

static void parameter_of_waits(struct dp_http_request *r, const char *key, const char *value, bool whole)
{
    if (!strcmp(key, "pid"))
        pid_parameter(r, value, whole);
}

static void parameters(struct dp_http_request *r, const char *query)
{
    unsigned seen = 0;
    while (*query && (r->page == DP_HTTP_PAGE_PROFILE || r->page == DP_HTTP_PAGE_WAITS)) {
        const char *end = query + strcspn(query, "&");
        const char *equals = memchr(query, '=', (size_t)(end - query));
        char key[16], value[128]; /* all kinds of lock are 86 bytes */
        if (decode(query, equals ? equals : end, key, sizeof key)) {
            bool whole = decode(equals ? equals + 1 : end, end, value, sizeof value);
            (r->profile ? parameter : parameter_of_waits)(r, key, whole ? value : "", whole);
        }
        if (++seen > 64)
            refuse(r, 400, "more than 64 parameters");
        query = *end ? end + 1 : end;
    }
    if (r->page == DP_HTTP_PAGE_PROFILE && r->text && r->seconds)
        refuse(r, 400, "seconds and debug do not go together");
    if (r->page == DP_HTTP_PAGE_PROFILE && r->types == DP_TYPES_IDLE && !r->seconds)
        refuse(r, 400, "types=idle needs seconds, the time for which memory was not used");
    if (r->page == DP_HTTP_PAGE_PROFILE && r->text && r->profile->is_delta)
        refuse(r, 400, "a delta has no text form; debug goes with heap, allocs, mutex, block and cpu");
}

/* Finds the last mount point in the path: the host may use any prefix. */
static const char *mounted(const char *path, const char *end, const char *mount)
{
    size_t n = strlen(mount);
    const char *found = NULL;
    for (const char *at = path; at + n <= end; at++)
        if (!memcmp(at, mount, n))
            found = at + n;
    return found;
}

static bool is_word(const char *from, const char *to, const char *word)
{
    return (size_t)(to - from) == strlen(word) && !memcmp(from, word, (size_t)(to - from));
}

/* Sets the page of this name, and the kind of a profile. Leaves DP_HTTP_PAGE_ERROR if there is none. */
static void find_page(struct dp_http_request *r, const char *name, const char *end)
{
    r->profile = dp_kind_endpoint_named(name, (size_t)(end - name), &r->kind);
    if (r->profile) {
        r->page = DP_HTTP_PAGE_PROFILE;
        r->seconds = r->profile->seconds;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others && !r->profile; i++)
        if (is_word(name, end, others[i].name))
            r->page = others[i].page;
}

void dp_http_request_parse(struct dp_http_request *r, const char *method, const char *target)
{
    *r = (struct dp_http_request){
        .page = DP_HTTP_PAGE_ERROR, .status = 200, .message = "", .head = !strcmp(method, "HEAD")};
    const char *end = target + strcspn(target, "?#");
    r->query = *end == '?' ? end + 1 : "";

    const char *word = mounted(target, end, "/debug/pprof/");
    if (word) {
        find_page(r, word, end);
    } else if ((word = mounted(target, end, "/pprof/"))) {
        for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
            if (is_word(word, end, aliases[i].path))
                find_page(r, aliases[i].name, aliases[i].name + strlen(aliases[i].name));
    } else if (end - target >= 12 && !memcmp(end - 12, "/debug/pprof", 12)) {
        refuse(r, 301, "the list of profiles is at pprof/");
        return;
    }
    bool symbol = r->page == DP_HTTP_PAGE_SYMBOL;
    if (r->page == DP_HTTP_PAGE_ERROR)
        refuse(r, 404, "unknown profile; /debug/pprof/ lists the profiles");
    else if (strcmp(method, "GET") && strcmp(method, "HEAD") && !(symbol && !strcmp(method, "POST")))
        refuse(r, 405, symbol ? "GET, HEAD or POST only" : "GET or HEAD only");
    else if (r->page == DP_HTTP_PAGE_PROFILE || r->page == DP_HTTP_PAGE_WAITS)
        parameters(r, r->query);
}

void dp_http_request_refuse_off(struct dp_http_request *r, int pid, char *line, size_t n_line)
{
    const struct dp_kind *kind = &dp_kind_table[r->kind];
    if (pid)
        dp_text_format(line, n_line, "%s is off in this process: start it with %s, or deltaprof set %d %s", kind->name,
                       kind->keys, pid, kind->keys);
    else
        dp_text_format(line, n_line, "%s is off in all processes: start them with %s, or deltaprof set PID %s",
                       kind->name, kind->keys, kind->keys);
    refuse(r, 404, line);
}
