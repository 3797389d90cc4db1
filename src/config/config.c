/* SPDX-License-Identifier: MIT */
/*
 * config/config.c - parses texts of key=value pairs, by the table of keys (rows.c, value.c).
 *
 * A text is parsed into a copy, so that a bad word changes nothing. No allocation, no stdio: it runs in the first
 * microseconds of a program.
 */
#include "config/row.h"

#include "base/text.h"
#include "config/address.h"

#include <errno.h>
#include <string.h>

/* Reports a word without `=`: a key without a value, or a directory without `out=`. */
static void bare_word(struct dp_config_error *error, const char *word)
{
    size_t key;
    if (dp_config_find(word, &key))
        dp_text_format(error->line, sizeof error->line, "%s: no value; it takes %s, default %s", word,
                       dp_config_key(key)->type, dp_config_key(key)->value_default);
    else
        dp_text_format(error->line, sizeof error->line, "%s: not KEY=VALUE, did you mean out=%s?", word, word);
}

/* Copies the pair at text, with `\,` replaced by a comma, and moves text behind it. False: the pair does not fit. */
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
    if (!text || !*text)
        return 0;
    struct dp_config next = *conf;
    char pair[DP_CONFIG_TEXT + 32];
    for (const char *rest = text; *rest;) {
        bool fits = next_pair(&rest, pair, sizeof pair);
        if (!*pair)
            continue; /* ",," and a final comma are allowed, for texts that are pasted together */
        char *equals = strchr(pair, '=');
        if (!equals) {
            bare_word(error, pair);
            return -EINVAL;
        }
        *equals = '\0';
        const char *value = equals + 1;
        size_t key;
        if (!dp_config_find(pair, &key)) {
            dp_config_unknown(error, pair);
            return -EINVAL;
        }
        const struct dp_config_row *row = dp_config_row(key);
        if (when && !(row->when & when)) {
            dp_text_format(error->line, sizeof error->line, "%s: cannot change %s", pair,
                           when == DP_KEY_LIVE ? "while the profiler runs" : "for one consumer");
            return -EINVAL;
        }
        if (!fits || strlen(value) >= DP_CONFIG_TEXT) {
            dp_text_format(error->line, sizeof error->line, "%s: its value is longer than %d bytes", pair,
                           DP_CONFIG_TEXT - 1);
            return -EINVAL;
        }
        if (dp_config_read_value(&next, row, value, error))
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
    const struct dp_config_row *row;
    for (size_t i = 0; (row = dp_config_row(i)); i++)
        dp_config_read_value(conf, row, row->initial ? row->initial : row->shown.value_default, &error);
}

void dp_config_copy(struct dp_config *to, const struct dp_config *from)
{
    uint64_t was = to->set;
    memcpy(to, from, offsetof(struct dp_config, out));
    strcpy(to->out, from->out);
    strcpy(to->exe, from->exe);
    strcpy(to->log, from->log);
    strcpy(to->tables, from->tables); /* these four can have values that are not in `set` */
    const struct dp_config_row *row;
    for (size_t i = 0; (row = dp_config_row(i)); i++)
        if (row->at >= offsetof(struct dp_config, events) && ((was | from->set) >> i & 1))
            strcpy((char *)to + row->at, (const char *)from + row->at);
}

int dp_config_parse(struct dp_config *conf, const char *text, struct dp_config_error *error)
{
    return parse(conf, text, 0, error);
}

int dp_config_parse_live(struct dp_config *conf, const char *text, struct dp_config_error *error)
{
    return parse(conf, text, DP_KEY_LIVE, error);
}

int dp_config_parse_delta(struct dp_config *conf, const char *text, struct dp_config_error *error)
{
    return parse(conf, text, DP_KEY_DELTA, error);
}

int dp_config_check(const struct dp_config *conf, struct dp_config_error *error)
{
    struct dp_config_address address;
    if (conf->listen[0] && !dp_config_address_parse(&address, conf->listen) && !address.local &&
        !dp_config_given(conf, "token")) {
        dp_text_format(
            error->line, sizeof error->line,
            "listen=%s can be reached from other machines: set token=FILE, or token=none to serve every client",
            conf->listen);
        return -EINVAL;
    }
    if (conf->events[0] && !conf->out[0] && dp_config_given(conf, "out")) {
        dp_text_format(error->line, sizeof error->line, "events=%s needs out=DIR, where profiles are written",
                       conf->events);
        return -EINVAL;
    }
    return 0;
}

bool dp_config_given(const struct dp_config *conf, const char *key)
{
    size_t i;
    return dp_config_find(key, &i) && (conf->set >> i & 1);
}

void dp_config_mark_given(struct dp_config *conf, const char *key)
{
    size_t i;
    if (dp_config_find(key, &i))
        conf->set |= UINT64_C(1) << i;
}
