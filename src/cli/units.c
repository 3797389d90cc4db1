/* SPDX-License-Identifier: MIT */
/* cli/units.c - the same units as `go tool pprof` writes. */
#include "cli/units.h"

#include <math.h>
#include <string.h>

struct step {
    const char *name;
    double size;
};

static const struct step bytes[] = {{"B", 1},       {"kB", 0x1p10}, {"MB", 0x1p20}, {"GB", 0x1p30},
                                    {"TB", 0x1p40}, {"PB", 0x1p50}, {NULL, 0}};
static const struct step times[] = {{"ns", 1},      {"us", 1e3},     {"ms", 1e6},       {"s", 1e9},
                                    {"mins", 60e9}, {"hrs", 3600e9}, {"days", 86400e9}, {NULL, 0}};
static const struct {
    const char *unit;
    const struct step *steps;
    double factor;
} units[] = {
    {"bytes", bytes, 1},       {"byte", bytes, 1},           {"kilobytes", bytes, 0x1p10}, {"megabytes", bytes, 0x1p20},
    {"nanoseconds", times, 1}, {"microseconds", times, 1e3}, {"milliseconds", times, 1e6}, {"seconds", times, 1e9},
};

void dp_cli_unit(char *to, size_t n_bytes, int64_t value, const char *unit)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].unit) || !value)
            continue;
        double scaled = (double)value * units[i].factor;
        const struct step *step = units[i].steps;
        while (step[1].name && fabs(scaled) >= step[1].size)
            step++;
        int n = snprintf(to, n_bytes, "%.2f", scaled / step->size);
        if (n > 3 && !strcmp(to + n - 3, ".00"))
            n -= 3;
        snprintf(to + n, n_bytes - (size_t)n, "%s", step->name);
        return;
    }
    snprintf(to, n_bytes, "%lld", (long long)value);
}

void dp_cli_print_name(FILE *to, const char *name)
{
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        putc(*at < 0x20 || *at == 0x7f ? '?' : *at, to);
}
