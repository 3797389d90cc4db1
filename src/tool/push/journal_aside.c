/* SPDX-License-Identifier: MIT */
/*
 * tool/push/journal_aside.c - the units that are set aside. Each keeps its files, its id and the outcome of its parts,
 * so that a part that was delivered is not sent again when the unit is tried again, by this pusher or by the next one.
 */
#include "tool/push/journal_lines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

int dp_push_journal_put_aside(struct dp_push_journal *j, const struct dp_push_aside *how)
{
    if (!j->unit.n_files)
        return 0;
    struct dp_push_aside *aside = dp_vec_push(&j->aside);
    if (!aside)
        return -ENOMEM;
    *aside = *how;
    aside->unit = j->unit; /* with its memory */
    aside->unit.aside_ns = how->unit.aside_ns;
    aside->unit.n_accepted = how->unit.n_accepted;
    j->unit = (struct dp_push_unit){.n_files = 0};
    return 0;
}

static void remove_at(struct dp_push_journal *j, size_t i)
{
    memmove(&j->aside.at[i], &j->aside.at[i + 1], (--j->aside.n - i) * sizeof *j->aside.at);
}

void dp_push_journal_bring_back(struct dp_push_journal *j, unsigned long long id)
{
    for (size_t i = 0; i < j->aside.n; i++)
        if (j->aside.at[i].unit.id == id) {
            dp_strings_fini(&j->unit.keys);
            j->unit = j->aside.at[i].unit;
            remove_at(j, i);
            return;
        }
}

static bool has_file(const struct dp_push_unit *unit, const char *key)
{
    for (uint32_t i = 1; i <= unit->n_files; i++)
        if (!strcmp(dp_strings_at(&unit->keys, i), key))
            return true;
    return false;
}

void dp_push_journal_drop_aside(struct dp_push_journal *j, const char *key)
{
    for (size_t i = j->aside.n; i-- > 0;)
        if (!j->aside.at[i].unit.part && has_file(&j->aside.at[i].unit, key)) {
            dp_strings_fini(&j->aside.at[i].unit.keys);
            remove_at(j, i);
        }
}

static int write_how(struct dp_push_journal *j, const struct dp_push_aside *how)
{
    int err =
        dp_push_journal_line(j, "aside %lld %lld %llu %s", (long long)(how->unit.aside_ns / SECOND),
                             (long long)(how->tried_ns / SECOND), (unsigned long long)how->unit.n_accepted, how->why);
    return err ? err : dp_push_journal_put_aside(j, how);
}

int dp_push_journal_aside(struct dp_push_journal *j, int64_t now_ns, const char *why)
{
    struct dp_push_aside how = {.unit = {.aside_ns = j->unit.aside_ns, .n_accepted = j->unit.n_accepted},
                                .tried_ns = now_ns};
    if (!how.unit.aside_ns) {
        how.unit.aside_ns = now_ns;
        how.unit.n_accepted = j->counts[DP_PUSH_ACCEPTED];
    }
    snprintf(how.why, sizeof how.why, "%s", why);
    for (char *p = how.why; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
    return write_how(j, &how);
}

int dp_push_journal_due(const struct dp_push_journal *j, int64_t now_ns, int64_t pause_ns)
{
    int due = -1;
    for (size_t i = 0; i < j->aside.n; i++) {
        int64_t tried_ns = j->aside.at[i].tried_ns;
        bool is_due = now_ns - tried_ns >= pause_ns || now_ns < tried_ns; /* later: a clock was set back */
        if (is_due && (due < 0 || tried_ns < j->aside.at[due].tried_ns))
            due = (int)i;
    }
    return due;
}

int dp_push_journal_again(struct dp_push_journal *j, int number)
{
    unsigned long long id = j->aside.at[number].unit.id;
    int err = dp_push_journal_line(j, "again %llu", id);
    if (!err)
        dp_push_journal_bring_back(j, id);
    return err;
}

bool dp_push_journal_is_aside(const struct dp_push_journal *j, const char *key)
{
    for (size_t i = 0; i < j->aside.n; i++)
        if (has_file(&j->aside.at[i].unit, key))
            return true;
    return false;
}

bool dp_push_journal_holds(const struct dp_push_journal *j, const char *key)
{
    for (size_t i = 0; i < j->aside.n; i++)
        if (j->aside.at[i].unit.part && has_file(&j->aside.at[i].unit, key))
            return true;
    return has_file(&j->unit, key);
}

/* Writes the unit to a journal that does not have it. */
int dp_push_journal_write_aside(struct dp_push_journal *to, const struct dp_push_aside *how)
{
    const struct dp_push_unit *unit = &how->unit;
    const bool outcomes[DP_PUSH_N_OUTCOMES] = {
        [DP_PUSH_ACCEPTED] = true, [DP_PUSH_DOUBT] = unit->in_doubt, [DP_PUSH_REFUSED] = unit->is_refused};
    int err = 0;
    for (uint32_t i = 1; i <= unit->n_files && !err; i++) {
        const char *key = dp_strings_at(&unit->keys, i);
        err = dp_push_journal_line(to, "file %llu %s", unit->id, key);
        err = err ? err : dp_push_journal_add_file(to, unit->id, key);
    }
    err = err ? err : dp_push_journal_line(to, "unit %llu", unit->id);
    if (!err)
        dp_push_journal_start_unit(to, unit->id);
    for (unsigned k = 0; k < DP_PUSH_N_OUTCOMES && unit->part && !err; k++) {
        if (!outcomes[k])
            continue;
        err = dp_push_journal_line(to, "part %u %u", unit->part - 1, k);
        dp_push_journal_end_part(to, unit->part - 1, k);
    }
    return err ? err : write_how(to, how);
}
