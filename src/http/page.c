/* SPDX-License-Identifier: MIT */
/*
 * http/page.c - texts small enough to be written in one go, and the address-to-name list that pprof asks for.
 *
 * The index shows no argument and no path of the process: whoever sees it may see the profiles, not the environment.
 */
#include "http/page.h"

#include "base/mem.h"
#include "base/process.h"
#include "http/request.h"
#include "report/text.h"

#include <deltaprof/deltaprof.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int say(dp_write_fn fn, void *ctx, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int say(dp_write_fn fn, void *ctx, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line)
        return -EMSGSIZE;
    return fn(ctx, line, (size_t)n);
}

int dp_page_index(bool cmdline, dp_write_fn fn, void *ctx)
{
    char program[DP_PROGRAM_TEXT];
    dp_process_program(program);
    int error =
        say(fn, ctx,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<title>%s: profiles</title>\n<style>\n"
            "body { font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 52em; padding: 0 1em; }\n"
            "table { border-collapse: collapse; width: 100%%; }\n"
            "th, td { text-align: left; padding: .35em .8em .35em 0; border-bottom: 1px solid #8884; }\n"
            ".n { text-align: right; font-variant-numeric: tabular-nums; }\n"
            "code { background: #8882; padding: .1em .3em; }\n"
            ":root { color-scheme: light dark; }\n</style></head><body>\n"
            "<h1>Profiles of %s, process %d</h1>\n"
            "<table>\n<tr><th>profile</th><th class=\"n\">rows</th><th>what it shows</th></tr>\n",
            program, program, (int)getpid());
    const struct dp_request_profile *p;
    for (size_t i = 0; !error && (p = dp_request_profile(i)); i++)
        error = say(fn, ctx, "<tr><td><a href=\"%s%s\">%s</a></td><td class=\"n\">%zu</td><td>%s</td></tr>\n", p->name,
                    p->delta ? "?cursor=index" : "", p->name, dp_text_count_rows(p->kind), p->words);
    if (!error)
        error = say(
            fn, ctx,
            "</table>\n"
            "<p>As text: <a href=\"heap?debug=1\">heap</a>, <a href=\"mutex?debug=1\">mutex</a>, "
            "<a href=\"block?debug=1\">block</a>. Over the next 10 seconds: "
            "<a href=\"heap?seconds=10\">heap</a>, <a href=\"mutex?seconds=10\">mutex</a>, "
            "<a href=\"block?seconds=10\">block</a>. Also: <a href=\"symbol\">symbol</a>%s.</p>\n"
            "<p>The links to deltas use the cursor <code>index</code>, so a click here takes nothing from a scraper. "
            "Read a profile with <code>go tool pprof -http=: http://HOST:PORT/debug/pprof/heap</code>.</p>\n"
            "<p>deltaprof %s</p>\n</body></html>\n",
            cmdline ? ", <a href=\"cmdline\">cmdline</a>" : "", DELTAPROF_VERSION);
    return error;
}

int dp_page_cmdline(dp_write_fn fn, void *ctx)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char buf[4096];
    ssize_t n;
    int error = 0;
    while (!error && (n = read(fd, buf, sizeof buf)) > 0)
        error = fn(ctx, buf, (size_t)n);
    close(fd);
    return error;
}

/* The next "0x..." of [*at, end); 0 at the end. */
static uintptr_t next_address(const char **at, const char *end)
{
    const char *p = *at;
    while (p < end) {
        if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
            uintptr_t value = 0;
            for (p += 2; p < end; p++) {
                int digit = *p >= '0' && *p <= '9'   ? *p - '0'
                            : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
                            : *p >= 'A' && *p <= 'F' ? *p - 'A' + 10
                                                     : -1;
                if (digit < 0)
                    break;
                value = value * 16 + (uintptr_t)digit;
            }
            if (value) {
                *at = p;
                return value;
            }
        } else {
            p++;
        }
    }
    *at = end;
    return 0;
}

int dp_page_symbol(const char *text, size_t n_bytes, dp_write_fn fn, void *ctx)
{
    int error = say(fn, ctx, "num_symbols: 1\n");
    const char *end = text ? text + n_bytes : NULL;
    DP_VEC(uintptr_t) addresses = {0};
    uintptr_t pc;
    while (!error && text && (pc = next_address(&text, end))) {
        uintptr_t *kept = dp_vec_push(&addresses);
        if (kept)
            *kept = pc;
        else
            error = -ENOMEM;
    }
    if (!error && addresses.n)
        error = dp_text_write_symbols(addresses.at, addresses.n, fn, ctx);
    dp_vec_fini(&addresses);
    return error;
}
