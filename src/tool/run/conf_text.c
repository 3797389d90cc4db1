/* SPDX-License-Identifier: MIT */
/*
 * tool/run/conf_text.c - adds keys to a text "key=value,key=value". Paths are made absolute here, because another
 * process reads them.
 */
#include "tool/run/conf_text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int dp_run_text_append(struct dp_run_text *text, const char *words)
{
    if (!words || !*words)
        return 0;
    size_t n = strlen(words);
    char *bytes = realloc(text->bytes, text->n_bytes + n + 2);
    if (!bytes)
        return -ENOMEM;
    text->bytes = bytes;
    if (text->n_bytes)
        bytes[text->n_bytes++] = ',';
    memcpy(bytes + text->n_bytes, words, n + 1);
    text->n_bytes += n;
    return 0;
}

/* Appends from to `to` with its commas escaped, and its % too when they are no pattern. */
static char *escape(char *to, const char *from, bool is_pattern)
{
    for (; *from; from++) {
        if (*from == ',')
            *to++ = '\\';
        else if (*from == '%' && !is_pattern)
            *to++ = '%';
        *to++ = *from;
    }
    *to = 0;
    return to;
}

/* HEAD DIR/VALUE, HEAD being "KEY=". expands: the key knows % patterns. */
static int append_absolute(struct dp_run_text *conf, const char *head, const char *dir, const char *value, bool expands)
{
    char words[64 + 2 * PATH_MAX + 2 * DP_CONFIG_TEXT];
    char *end = words + snprintf(words, 64, "%s", head);
    end = escape(end, dir, !expands);
    if (strcmp(value, ".")) {
        *end++ = '/';
        escape(end, value, true);
    }
    return dp_run_text_append(conf, words);
}

int dp_run_text_make_absolute(struct dp_run_text *text, const struct dp_config *conf, bool here)
{
    char dir[PATH_MAX];
    if (!getcwd(dir, sizeof dir))
        return 0; /* the working directory was removed: an absolute `out` still works */
    int err = 0;
    const char *out = dp_config_given(conf, "out") ? conf->out : here ? "." : "";
    if (*out && *out != '/')
        err = append_absolute(text, "out=", dir, out, true);
    const char *log = conf->log;
    if (!err && *log != '/' && strchr(log, '/'))
        err = append_absolute(text, "log=", dir, log, false);
    if (!err && *conf->token && *conf->token != '/')
        err = append_absolute(text, "token=", dir, conf->token, false);
    if (!err && *conf->lock_names && *conf->lock_names != '/')
        err = append_absolute(text, "lock_names=", dir, conf->lock_names, false);
    if (!err && !strncmp(conf->listen, "unix:", 5) && conf->listen[5] != '/')
        err = append_absolute(text, "listen=unix:", dir, conf->listen + 5, false);
    return err;
}

int dp_run_text_check_out(const struct dp_config *conf, char *why, size_t n_why)
{
    char parent[DP_CONFIG_TEXT];
    struct stat st;
    snprintf(parent, sizeof parent, "%s", conf->out);
    size_t n = strcspn(parent, "%"); /* what a process puts there is not known yet */
    if (!parent[n])
        while (n > 1 && parent[n - 1] == '/')
            n--;
    while (n > 0 && parent[n - 1] != '/')
        n--;
    while (n > 1 && parent[n - 1] == '/')
        n--;
    parent[n] = '\0';
    if (!n || (!stat(parent, &st) && S_ISDIR(st.st_mode)))
        return 0;
    int err = stat(parent, &st) ? errno : ENOTDIR;
    snprintf(why, n_why, "out=%s: %s: %s; only the last directory of out is made", conf->out, parent, strerror(err));
    return -err;
}
