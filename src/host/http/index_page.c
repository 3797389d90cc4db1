/* SPDX-License-Identifier: MIT */
/*
 * host/http/index_page.c - writes the endpoint's text replies: the index page, the command line, and the names of
 * addresses for pprof.
 *
 * The index shows no argument and no path of the process: its readers may see profiles, but not the environment.
 */
#include "host/http/index_page.h"

#include "host/http/delivery.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "host/report/totals.h"
#include "profile/kinds.h"
#include "host/report/text_profile.h"

#include <deltaprof/deltaprof.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int print(dp_pprof_write_fn fn, void *ctx, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int print(dp_pprof_write_fn fn, void *ctx, const char *format, ...)
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

/* A number of bytes with three digits: "1.53 MB". */
static const char *bytes_text(char text[32], int64_t n_bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    double n = (double)n_bytes;
    size_t unit = 0;
    for (; n >= 1000 && unit < 5; unit++)
        n /= 1024;
    snprintf(text, 32, unit && n < 100 ? "%.3g %s" : "%.0f %s", n, units[unit]);
    return text;
}

static const char style[] =
    "body { font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 56em; padding: 0 1em; }\n"
    "table { border-collapse: collapse; width: 100%; }\n"
    "th, td { text-align: left; padding: .35em .8em .35em 0; border-bottom: 1px solid #8884; }\n"
    ".n { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "code { background: #8882; padding: .1em .3em; }\n"
    "pre { background: #8882; padding: .5em; overflow-x: auto; user-select: all; }\n"
    "svg { width: 100%; height: 60px; background: #8881; }\n"
    "[hidden] { display: none; }\n"
    ":root { color-scheme: light dark; }\n";

/*
 * The browser inserts the page's address into the commands: the process does not know under which name it is reached.
 * Every two seconds it asks for the metrics, says what happened a second in between, and draws the memory in use.
 */
static const char script[] =
    "'use strict';\n"
    "for (const e of document.querySelectorAll('.here'))\n"
    "  e.textContent = location.origin + location.pathname;\n"
    "const bytes = n => {\n"
    "  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];\n"
    "  let u = 0;\n"
    "  for (; n >= 1000 && u < 4; u++) n /= 1024;\n"
    "  return `${u && n < 100 ? n.toPrecision(3) : Math.round(n)} ${units[u]}`;\n"
    "};\n"
    "const points = [];\n"
    "let last = null;\n"
    "async function ask() {\n"
    "  const reply = document.hidden ? null : await fetch('metrics', {cache: 'no-store'}).catch(() => null);\n"
    "  if (!reply || !reply.ok) return;\n"
    "  const now = {at: performance.now() / 1000, allocated: 0, inUse: 0, waited: 0};\n"
    "  for (const line of (await reply.text()).split('\\n')) {\n"
    "    const [name, value] = line.split(' ');\n"
    "    if (name === 'deltaprof_in_use_bytes') now.inUse = Number(value);\n"
    "    else if (name === 'deltaprof_allocated_bytes_total') now.allocated = Number(value);\n"
    "    else if (/^deltaprof_wait_seconds_total/.test(name) && !/\"(cond|sem|join|park)\"/.test(name))\n"
    "      now.waited += Number(value);\n"
    "  }\n"
    "  points.push(now.inUse);\n"
    "  if (points.length > 150) points.shift();\n"
    "  if (last) {\n"
    "    const s = now.at - last.at;\n"
    "    document.getElementById('now').textContent = `Now: ${bytes(now.inUse)} in use, ${\n"
    "      bytes((now.allocated - last.allocated) / s)}/s allocated; threads wait ${\n"
    "      ((now.waited - last.waited) / s).toFixed(3)} s/s for locks.`;\n"
    "    const most = Math.max(...points, 1), step = 600 / (points.length - 1);\n"
    "    document.getElementById('line').setAttribute('points',\n"
    "      points.map((p, i) => `${(i * step).toFixed(1)},${(58 - 56 * p / most).toFixed(1)}`).join(' '));\n"
    "    document.getElementById('chart').removeAttribute('hidden');\n"
    "  }\n"
    "  last = now;\n"
    "}\n"
    "ask();\n"
    "setInterval(ask, 2000);\n";

static int begin_index(dp_pprof_write_fn fn, void *ctx)
{
    char program[DP_PROGRAM_TEXT];
    dp_process_program(program);
    int err = print(fn, ctx,
                    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                    "<link rel=\"icon\" href=\"data:,\">\n<title>%s: profiles</title>\n<style>\n",
                    program);
    err = err ? err : fn(ctx, style, sizeof style - 1);
    return err ? err
               : print(fn, ctx, "</style></head><body>\n<h1>Profiles of %s, process %d</h1>\n", program, (int)getpid());
}

static int write_sums(const struct dp_totals *of, dp_pprof_write_fn fn, void *ctx)
{
    char in_use[32], allocated[32];
    int err = print(fn, ctx,
                    "<p>%s in use, in %lld blocks; %s allocated since start.<br>Threads waited %.3f s in %lld waits, "
                    "%.3f s of it for locks that others held.<br>",
                    bytes_text(in_use, of[DELTAPROF_HEAP].inuse_bytes), (long long)of[DELTAPROF_HEAP].inuse_objects,
                    bytes_text(allocated, of[DELTAPROF_HEAP].alloc_bytes), (double)of[DELTAPROF_BLOCK].delay_ns / 1e9,
                    (long long)of[DELTAPROF_BLOCK].contentions, (double)of[DELTAPROF_MUTEX].delay_ns / 1e9);
    bool has_lost = false;
    for (int i = 0; i < DP_STAT_N && !err; i++) {
        uint64_t n = dp_stats_read((enum dp_stat)i);
        if (i == DP_STAT_SAMPLES || i == DP_STAT_TICKS || !n)
            continue;
        err = print(fn, ctx, "%llu %s<br>", (unsigned long long)n, dp_stats_words((enum dp_stat)i));
        has_lost = true;
    }
    return err ? err : print(fn, ctx, has_lost ? "</p>\n" : "Nothing was lost.</p>\n");
}

/* Filled by the script. */
static const char chart[] = "<p id=\"now\"></p>\n<svg id=\"chart\" hidden viewBox=\"0 0 600 60\" "
                            "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"memory in use\">"
                            "<polyline id=\"line\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" "
                            "vector-effect=\"non-scaling-stroke\"/></svg>\n";

/* As a request of the next `seconds`, 0: since start, would be answered. */
static bool is_off(unsigned kind, int64_t seconds)
{
    const struct dp_http_request request = {.kind = kind, .seconds = seconds};
    return dp_http_delivery_is_off(&request);
}

/* A link to the profile of each kind that is on, with this query: "heap, mutex, block. ". */
static int write_kind_links(const char *query, int64_t seconds, dp_pprof_write_fn fn, void *ctx)
{
    int err = 0;
    const char *separator = "";
    for (unsigned kind = 0; kind < DP_KIND_DELTAS && !err; kind++) {
        const char *name = dp_kind_table[kind].name;
        if (is_off(kind, seconds))
            continue;
        err = print(fn, ctx, "%s<a href=\"%s?%s\">%s</a>", separator, name, query, name);
        separator = ", ";
    }
    return err ? err : print(fn, ctx, ". ");
}

static int write_links(const struct dp_totals *of, bool cmdline, dp_pprof_write_fn fn, void *ctx)
{
    const struct dp_kind_endpoint *p;
    unsigned kind;
    int err = print(fn, ctx,
                    "<p><a href=\"view\"><b>Look at it, live</b></a>: <a href=\"view#k=heap\">memory</a>, "
                    "<a href=\"view#k=block&amp;v=locks\">locks</a>.</p>\n"
                    "<table>\n<tr><th>profile</th><th>file</th><th class=\"n\">rows</th><th>what it shows</th></tr>\n");
    for (size_t i = 0; !err && (p = dp_kind_endpoint_at(i, &kind)); i++)
        if (is_off(kind, p->seconds))
            err =
                print(fn, ctx, "<tr><td>%s</td><td>off</td><td></td><td>%s; <code>%s</code> switches it on</td></tr>\n",
                      p->name, p->words, dp_kind_table[kind].keys);
        else
            err = print(fn, ctx,
                        "<tr><td><a href=\"view#k=%s\">%s</a></td><td><a href=\"%s%s\">download</a></td>"
                        "<td class=\"n\">%zu</td><td>%s</td></tr>\n",
                        dp_kind_table[kind].name, p->name, p->name,
                        p->is_delta  ? "?cursor=index"
                        : p->seconds ? "?seconds=30"
                                     : "",
                        of[kind].n_rows, p->words);
    err = err ? err : print(fn, ctx, "</table>\n<p>As text: ");
    err = err ? err : write_kind_links("debug=1", 0, fn, ctx);
    err = err ? err : print(fn, ctx, "Over the next 10 seconds: ");
    err = err ? err : write_kind_links("seconds=10", 10, fn, ctx);
    return err ? err
               : print(fn, ctx,
                       "Also: <a href=\"symbol\">symbol</a>, <a href=\"waits\">waits</a>, "
                       "<a href=\"metrics\">metrics</a>%s.</p>\n",
                       cmdline ? ", <a href=\"cmdline\">cmdline</a>" : "");
}

int dp_http_page_index(bool cmdline, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_totals of[DP_KIND_DELTAS] = {0};
    for (unsigned kind = 0; kind < DP_KIND_DELTAS; kind++)
        dp_totals_read(kind, &of[kind]);
    int err = begin_index(fn, ctx);
    err = err ? err : write_sums(of, fn, ctx);
    err = err ? err : fn(ctx, chart, sizeof chart - 1);
    err = err ? err : write_links(of, cmdline, fn, ctx);
    if (!err)
        err = print(fn, ctx,
                    "<p>The links to deltas use the cursor <code>index</code>, so a click here takes nothing from a "
                    "scraper. For a terminal:</p>\n"
                    "<pre>go tool pprof -http=: <span class=\"here\">http://HOST:PORT/debug/pprof/</span>heap</pre>\n"
                    "<pre>curl -so heap.pb.gz <span class=\"here\">http://HOST:PORT/debug/pprof/</span>heap &amp;&amp; "
                    "deltaprof top heap.pb.gz</pre>\n<p>deltaprof %s</p>\n<script>",
                    DELTAPROF_VERSION);
    err = err ? err : fn(ctx, script, sizeof script - 1);
    return err ? err : print(fn, ctx, "</script>\n</body></html>\n");
}

int dp_http_page_cmdline(dp_pprof_write_fn fn, void *ctx)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char buf[4096];
    ssize_t n;
    int err = 0;
    while (!err && (n = read(fd, buf, sizeof buf)) > 0)
        err = fn(ctx, buf, (size_t)n);
    close(fd);
    return err;
}

/* Reads the next "0x..." of [*at, end); 0 at the end. */
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

int dp_http_page_symbol(const char *text, size_t n_bytes, dp_pprof_write_fn fn, void *ctx)
{
    int err = print(fn, ctx, "num_symbols: 1\n");
    const char *end = text ? text + n_bytes : NULL;
    DP_VEC(uintptr_t) addresses = {0};
    uintptr_t pc;
    while (!err && text && (pc = next_address(&text, end))) {
        uintptr_t *kept = dp_vec_push(&addresses);
        if (kept)
            *kept = pc;
        else
            err = -ENOMEM;
    }
    if (!err && addresses.n)
        err = dp_report_text_write_symbols(addresses.at, addresses.n, fn, ctx);
    dp_vec_fini(&addresses);
    return err;
}
