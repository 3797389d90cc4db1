/* SPDX-License-Identifier: MIT */
/*
 * config/config.h - the configuration: one table of keys and one pure parser, for DELTAPROF_CONF, `-o`, the API, --help
 * and the man page.
 *
 * A parse touches only the struct that it is given: no environment, no files, no log. Text is
 * "key=value,key=value"; `\,` is a comma; sizes take k M G (1024), times ns us ms s m h; `none` switches off.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dp_unwind_mode { DP_UNWIND_AUTO, DP_UNWIND_FP, DP_UNWIND_LIBUNWIND };
enum dp_symbolize { DP_SYMBOLIZE_NONE, DP_SYMBOLIZE_FUNCTIONS, DP_SYMBOLIZE_LINES };
enum dp_address { DP_ADDRESS_RUNTIME, DP_ADDRESS_ELF };
/* IDLE: as WASTE, and what was not used in the window; only requests of the endpoint have it. */
enum dp_types { DP_TYPES_ALL, DP_TYPES_ALLOC, DP_TYPES_INUSE, DP_TYPES_WASTE, DP_TYPES_IDLE };

enum dp_python_mode { DP_PYTHON_AUTO, DP_PYTHON_FRAMES, DP_PYTHON_OFF };

#define DP_CONFIG_TEXT 1024 /* longest text value, with its NUL */

/* Every key's value. Filled with the defaults by dp_config_init; `set` has a bit for each key that was given. */
struct dp_config {
    int64_t heap_rate;     /* bytes; 1: every allocation, 0: off */
    int64_t mutex_rate;    /* 1 in n; 0 off */
    int64_t block_rate_ns; /* 0 off */
    int64_t cpu_rate_ns;   /* 0 off */
    int64_t wall_rate_ns;  /* 0 off */
    int64_t interval_ns;   /* 0 on request only */
    int64_t stuck_ns;      /* 0 off */
    int64_t keep;          /* ticks; 0 all */
    int64_t depth;         /* frames */
    int64_t memory;        /* bytes */
    int64_t max_samples;   /* 0 never */
    int64_t exit_timeout_ns;
    int64_t cursor_ttl_ns;
    enum dp_unwind_mode unwind;
    enum dp_python_mode python;
    enum dp_symbolize symbolize;
    enum dp_address address;
    enum dp_types types;
    bool signals;
    bool start; /* false: the process is off until it is asked to profile */
    bool age;
    bool cmdline;
    bool thread;
    bool trace;
    bool mmap;
    bool inside;
    bool has_users_tables;    /* tables is not given: the directory of the process's user */
    int signal;               /* number; 0 none */
    uint64_t set;             /* bit i: key i of the table was given */
    char out[DP_CONFIG_TEXT]; /* "" none */
    char exe[DP_CONFIG_TEXT];
    char log[DP_CONFIG_TEXT];
    /* From here on every text is "" unless its key was given. */
    char events[DP_CONFIG_TEXT]; /* "" off; "on": in out; else a directory */
    char listen[DP_CONFIG_TEXT]; /* "" none */
    char token[DP_CONFIG_TEXT];
    char push[DP_CONFIG_TEXT];       /* "" none */
    char lock_names[DP_CONFIG_TEXT]; /* "" none */
    char tables[DP_CONFIG_TEXT];     /* "" private memory */
};

/* What was wrong, as one line without newline: names the word and what is allowed. */
struct dp_config_error {
    char line[384];
};

void dp_config_init(struct dp_config *conf);

/* to: zero, or a configuration. Touches only the pages of texts that are in use: a process that lives a millisecond has
 * copies, and each page of them costs it a page fault. */
void dp_config_copy(struct dp_config *to, const struct dp_config *from);

/* Merges text into conf, key by key. 0, or -EINVAL with error filled and conf unchanged. NULL text is "". */
int dp_config_parse(struct dp_config *conf, const char *text, struct dp_config_error *error);

/* As parse, but accepts only keys that may change while running; others give -EINVAL. */
int dp_config_parse_live(struct dp_config *conf, const char *text, struct dp_config_error *error);

/* As parse, for one consumer: symbolize, address, types, max_samples, age. */
int dp_config_parse_delta(struct dp_config *conf, const char *text, struct dp_config_error *error);

/* Checks the keys against each other, after all texts were merged. 0, or -EINVAL with error filled. */
int dp_config_check(const struct dp_config *conf, struct dp_config_error *error);

/* Whether the key was in a text that was parsed into conf; false for an unknown key. */
bool dp_config_given(const struct dp_config *conf, const char *key);
/* Marks the key as given, for a caller that has set its value. */
void dp_config_mark_given(struct dp_config *conf, const char *key);

/* Whether all keys that switch the kind (enum dp_kind_id) on have values other than 0. */
bool dp_config_kind_is_on(const struct dp_config *conf, unsigned kind);

/* The table, for --help and the man page: NULL beyond the last. */
struct dp_config_key {
    const char *key;
    const char *type;          /* SIZE, TIME, N, or the words that it takes: auto|fp|libunwind */
    const char *value_default; /* as shown to the user */
    const char *help;          /* one line */
};
const struct dp_config_key *dp_config_key(size_t i);
