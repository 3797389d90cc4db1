/* SPDX-License-Identifier: MIT */
/* profile/file_name.c - makes names of profile files, and parses them from the right, because PROGRAM may have dots. */
#include "profile/file_name.h"

#include "base/text.h"
#include "profile/kinds.h"

#include <string.h>

enum { SEQ_DIGITS = 4 };

/*
 * Finds the last n dots before `end`; dots[0] is the last one. False: there are fewer, or nothing stands before the
 * first of them.
 */
static bool find_dots(const char *begin, const char *end, const char **dots, int n)
{
    for (int i = 0; i < n; i++) {
        do {
            if (--end <= begin)
                return false;
        } while (*end != '.');
        dots[i] = end;
    }
    return true;
}

/* Reads the number in [at, end); a larger one is UINT64_MAX. False: fewer than n_least digits, or other characters. */
static bool parse_number(const char *at, const char *end, int n_least, uint64_t *number)
{
    if (end - at < n_least)
        return false;
    for (*number = 0; at < end; at++) {
        uint64_t digit = (uint64_t)(unsigned char)*at - '0';
        if (digit > 9)
            return false;
        if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, digit, number))
            *number = UINT64_MAX;
    }
    return true;
}

static bool has_suffix(const char *begin, const char *end, const char *suffix)
{
    size_t n = strlen(suffix);
    return (size_t)(end - begin) > n && !memcmp(end - n, suffix, n);
}

bool dp_profile_name_parse(const char *path, struct dp_profile_name *name)
{
    const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path;
    const char *end = begin + strlen(begin), *dots[3]; /* before KIND, SEQ and PID */
    if (!has_suffix(begin, end, DP_PROFILE_SUFFIX))
        return false;
    end -= strlen(DP_PROFILE_SUFFIX);
    if (!find_dots(begin, end, dots, 3) || !parse_number(dots[1] + 1, dots[0], SEQ_DIGITS, &name->seq) ||
        !parse_number(dots[2] + 1, dots[1], 1, &name->pid))
        return false;
    name->program = begin;
    name->n_program = (size_t)(dots[2] - begin);
    name->n_process = (size_t)(dots[1] - begin);
    name->kind = dots[0] + 1;
    name->n_kind = (size_t)(end - name->kind);
    name->kind_id = dp_kind_named(name->kind, name->n_kind);
    return true;
}

size_t dp_profile_name_format(char name[DP_PROFILE_NAME_MAX], const char *program, int pid, uint32_t seq, unsigned kind)
{
    return dp_text_format(name, DP_PROFILE_NAME_MAX, "%s.%d.%04u.%s" DP_PROFILE_SUFFIX, program, pid, seq,
                          dp_kind_table[kind].name);
}

static bool is_hex(const char *at, const char *end)
{
    size_t n = (size_t)(end - at);
    return n && strspn(at, "0123456789abcdef") == n; /* a dot ends it */
}

uint64_t dp_profile_name_temporary_pid(const char *name)
{
    const char *end = name + strlen(name), *dots[4]; /* before tmp, HEX, KIND and PID */
    uint64_t pid;
    if (*name != '.' || !has_suffix(name, end, ".tmp") || !find_dots(name, end, dots, 4) ||
        dp_kind_named(dots[2] + 1, (size_t)(dots[1] - dots[2] - 1)) == DP_KINDS || !is_hex(dots[1] + 1, dots[0]) ||
        !parse_number(dots[3] + 1, dots[2], 1, &pid))
        return 0;
    return pid;
}

size_t dp_profile_name_format_temporary(char name[DP_PROFILE_NAME_MAX], const char *program, int pid, unsigned kind,
                                        uint64_t number)
{
    return dp_text_format(name, DP_PROFILE_NAME_MAX, ".%s.%d.%s.%llx.tmp", program, pid, dp_kind_table[kind].name,
                          (unsigned long long)number);
}
