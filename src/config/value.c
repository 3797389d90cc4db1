/* SPDX-License-Identifier: MIT */
/*
 * config/value.c - reads one value by its row: 0, or -EINVAL with what is allowed in error.
 */
#include "config/row.h"

#include "base/text.h"
#include "config/address.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

static void allowed(struct dp_config_error *error, const struct dp_config_row *row, const char *value, const char *what)
{
    dp_text_format(error->line, sizeof error->line, "%s=%s: %s", row->shown.key, value, what);
}

static void allowed_range(struct dp_config_error *error, const struct dp_config_row *row, const char *value,
                          const char *kind)
{
    char min[32], max[32];
    int64_t least = row->min < 0 ? -row->min : row->min;
    void (*show)(char *, size_t, int64_t) = row->type == DP_KEY_SIZE   ? dp_text_size
                                            : row->type == DP_KEY_TIME ? dp_text_time
                                                                       : dp_text_count;
    show(min, sizeof min, least);
    show(max, sizeof max, row->max);
    dp_text_format(error->line, sizeof error->line, "%s=%s: %s from %s to %s%s", row->shown.key, value, kind, min, max,
                   row->min < 0 ? ", or 0" : "");
}

static int read_number(const struct dp_config_row *row, const char *value, int64_t *out, struct dp_config_error *error)
{
    static const char *const kinds[] = {
        [DP_KEY_SIZE] = "a size (k M G are powers of 1024)",
        [DP_KEY_TIME] = "a time with its unit (ns us ms s m h)",
        [DP_KEY_COUNT] = "a number",
    };
    int64_t n = 0;
    int bad = 0;
    if (strcmp(value, "none") != 0)
        bad = row->type == DP_KEY_SIZE   ? dp_text_read_size(value, &n)
              : row->type == DP_KEY_TIME ? dp_text_read_time(value, &n)
                                         : dp_text_read_count(value, &n);
    int64_t least = row->min < 0 && n != 0 ? -row->min : row->min;
    if (bad || n < least || n > row->max) {
        allowed_range(error, row, value, kinds[row->type]);
        return -EINVAL;
    }
    *out = n;
    return 0;
}

/* The type text of a choice lists its words, in the order of the enum. */
static int read_choice(const struct dp_config_row *row, const char *value, unsigned *out, struct dp_config_error *error)
{
    unsigned i = 0;
    for (const char *word = row->shown.type; *word; i++) {
        size_t n = strcspn(word, "|");
        if (strlen(value) == n && memcmp(value, word, n) == 0) {
            *out = i;
            return 0;
        }
        word += n + (word[n] == '|');
    }
    allowed(error, row, value, row->shown.type);
    return -EINVAL;
}

static int read_signal(const struct dp_config_row *row, const char *value, int *out, struct dp_config_error *error)
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
    allowed(error, row, value, "USR1, USR2, URG, WINCH, VTALRM, PROF, IO, PWR, RTMIN+N, or none");
    return -EINVAL;
}

static bool is_plain(const char *path)
{
    while (*path > ' ' && *path < 127 && !strchr("?#\\\"", *path))
        path++;
    return !*path;
}

/* Whether a URL is PROTOCOL+http://HOST:PORT/PATH, or the same with https: those that deltaprof push takes. */
static bool is_receiver(const char *url)
{
    static const char *const protocols[] = {"pyroscope+http", "parca+http", "otlp+http", "pprof+http"};
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++) {
        size_t n = strlen(protocols[i]);
        if (strncmp(url, protocols[i], n))
            continue;
        url += n + (url[n] == 's');
        return !strncmp(url, "://", 3) && dp_text_is_authority(url + 3, strcspn(url + 3, "/")) && is_plain(url + 3);
    }
    return false;
}

static int read_text(const struct dp_config_row *row, const char *value, char *out, struct dp_config_error *error)
{
    bool is_path = strchr(value, '/');
    if (row->type == DP_KEY_LOG && !is_path && strcmp(value, "stderr") != 0 && strcmp(value, "none") != 0 &&
        strcmp(value, "info") != 0) {
        allowed(error, row, value, "stderr, none, info, or a file as a path with a / in it");
        return -EINVAL;
    }
    if (row->type == DP_KEY_EVENTS && !is_path && strcmp(value, "on") != 0 && strcmp(value, "off") != 0 &&
        strcmp(value, "none") != 0) {
        allowed(error, row, value, "on, off, or a directory as a path with a / in it");
        return -EINVAL;
    }
    bool has_percent = row->type == DP_KEY_DIRECTORY || row->type == DP_KEY_EVENTS;
    for (const char *p = has_percent ? strchr(value, '%') : NULL; p; p = strchr(p + 2, '%'))
        if (!p[1] || !strchr("eph%", p[1])) {
            allowed(error, row, value, "after % comes e (program), p (pid), h (host) or another %");
            return -EINVAL;
        }
    bool none = (row->type != DP_KEY_LOG && row->type != DP_KEY_GLOBS && strcmp(value, "none") == 0) ||
                (row->type == DP_KEY_EVENTS && strcmp(value, "off") == 0);
    struct dp_config_address address;
    if (row->type == DP_KEY_ADDRESS && !none && dp_config_address_parse(&address, value)) {
        allowed(error, row, value,
                "HOST:PORT, HOST:PORT-PORT (an IP address, [IPv6], localhost or *), unix:PATH, or none");
        return -EINVAL;
    }
    if (row->type == DP_KEY_RECEIVER && !none && !is_receiver(value)) {
        allowed(error, row, value,
                "pyroscope+http://HOST:PORT, parca+http://, otlp+http:// or pprof+http://, also with https, or none");
        return -EINVAL;
    }
    strcpy(out, none ? "" : value); /* fits: next_pair checked the length */
    return 0;
}

int dp_config_read_value(struct dp_config *conf, const struct dp_config_row *row, const char *value,
                         struct dp_config_error *error)
{
    void *at = (char *)conf + row->at;
    unsigned choice = 0;
    int err;
    if (!*value) {
        dp_text_format(error->line, sizeof error->line, "%s=: no value; it takes %s, default %s", row->shown.key,
                       row->shown.type, row->shown.value_default);
        return -EINVAL;
    }
    switch (row->type) {
    case DP_KEY_SIZE:
    case DP_KEY_TIME:
    case DP_KEY_COUNT:
        return read_number(row, value, at, error);
    case DP_KEY_CHOICE:
        err = read_choice(row, value, &choice, error);
        *(unsigned *)at = choice;
        return err;
    case DP_KEY_SWITCH:
        err = strcmp(value, "none") == 0 ? (choice = 1, 0) : read_choice(row, value, &choice, error);
        *(bool *)at = choice == 0;
        return err;
    case DP_KEY_SIGNAL:
        return read_signal(row, value, at, error);
    default:
        return read_text(row, value, at, error);
    }
}
