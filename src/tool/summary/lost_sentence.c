/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/lost_sentence.c - says what the profiler lost, and of which kinds, each loss once.
 *
 * A profile counts losses since its process began, so the newest one of each process and kind is read. A count of one
 * kind is summed over processes. A count of the process (dp_stats_scope) stands in the profiles of several kinds, which
 * are not equally new: of these numbers the largest is the newest one, and it alone is summed. Counters that this
 * version does not know are of a kind, unless several kinds have the same number.
 */
#include "tool/summary/sentence_parts.h"

#include "base/stats.h"
#include "profile/kinds.h"
#include "tool/query/files.h"
#include "tool/query/print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loss {
    uint32_t words;
    uint32_t kinds; /* bits; 0: it is of no kind */
    int64_t number;
};

/* A count of a process, while its files are read. */
struct shared {
    const struct dp_query_file *file; /* of the process */
    struct loss loss;
};

struct losses {
    struct dp_strings words;
    DP_VEC(struct loss) at;
    DP_VEC(struct shared) shared;
};

static int add_loss(struct losses *l, uint32_t words, uint32_t kinds, int64_t number)
{
    struct loss *to = NULL;
    for (size_t i = 0; i < l->at.n && !to; i++)
        if (l->at.at[i].words == words && l->at.at[i].kinds == kinds)
            to = &l->at.at[i];
    if (!to && (to = dp_vec_push(&l->at)))
        *to = (struct loss){words, kinds, 0};
    if (to)
        dp_model_merge_sum(&to->number, number);
    return to ? 0 : -ENOMEM;
}

static bool is_of_process(const struct dp_query_file *x, const struct dp_query_file *y)
{
    return x->stamp == y->stamp && x->n_process == y->n_process && !memcmp(x->file, y->file, x->n_process);
}

static int add_shared(struct losses *l, const struct dp_query_file *file, uint32_t words, uint32_t kinds,
                      int64_t number)
{
    struct shared *to = NULL;
    for (size_t i = 0; i < l->shared.n && !to; i++)
        if (l->shared.at[i].loss.words == words && is_of_process(l->shared.at[i].file, file))
            to = &l->shared.at[i];
    if (!to && (to = dp_vec_push(&l->shared)))
        *to = (struct shared){file, {words, kinds, 0}};
    if (!to)
        return -ENOMEM;
    to->loss.kinds |= kinds;
    to->loss.number = number > to->loss.number ? number : to->loss.number;
    return 0;
}

/* Sums over processes; the kinds are those of all of them. */
static int sum_shared(struct losses *l)
{
    int err = 0;
    for (size_t i = 0; i < l->shared.n; i++)
        for (size_t j = 0; j < l->shared.n; j++)
            if (l->shared.at[i].loss.words == l->shared.at[j].loss.words)
                l->shared.at[i].loss.kinds |= l->shared.at[j].loss.kinds;
    for (size_t i = 0; i < l->shared.n && !err; i++)
        err = add_loss(l, l->shared.at[i].loss.words, l->shared.at[i].loss.kinds, l->shared.at[i].loss.number);
    dp_vec_clear(&l->shared);
    return err;
}

/* Adds the losses of a query to which one profile was added. file: NULL: it has no such name, so its kind is unknown.
 */
static int add_losses(struct losses *l, const struct dp_query *v, const struct dp_query_file *file)
{
    int err = 0;
    for (uint32_t i = 1; i < dp_strings_count(&v->losses) && !err; i++) {
        char *words;
        int64_t number = strtoll(dp_strings_at(&v->losses, i), &words, 10);
        enum dp_stats_scope scope = dp_stats_scope(words + (*words == ' '));
        uint32_t kinds = file && scope != DP_STATS_OF_ALL ? 1u << file->kind_id : 0;
        uint32_t id = dp_strings_add(&l->words, words, strlen(words));
        if (id == DP_STRINGS_NONE)
            err = -ENOMEM;
        else
            err = file && scope != DP_STATS_OF_KIND ? add_shared(l, file, id, kinds, number)
                                                    : add_loss(l, id, kinds, number);
    }
    return err;
}

/* Adds the losses in a profile; one that cannot be read is named elsewhere. A status. */
static int read_losses(struct dp_summary_sentences *s, struct losses *l, const char *path,
                       const struct dp_query_file *file)
{
    struct dp_query_source source = {.is_quiet = true};
    struct dp_query sums;
    int status = dp_summary_sentences_query(&sums, s, NULL, DP_QUERY_AT_USUAL);
    bool is_read = !status && !dp_query_read_file(s->verb, path, s->limit_bytes, &source);
    if (is_read &&
        (dp_query_losses_add(&sums, &source.decode) || dp_query_losses_sum(&sums) || add_losses(l, &sums, file))) {
        dp_query_print_error(s->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    dp_query_source_fini(&source);
    dp_query_fini(&sums);
    return status;
}

static int read_all(struct dp_summary_sentences *s, struct losses *l, const struct dp_query_paths *paths)
{
    struct dp_query_file *files = calloc(paths->n + 1, sizeof *files), other;
    size_t n = files ? dp_query_files_sort(paths->at, paths->n, files) : 0;
    int status = files ? 0 : DP_EXIT_FAILED;
    for (size_t i = 0; i < n && !status; i++)
        if (files[i].kind_id != DP_KINDS && (!i || !dp_query_file_is_same(&files[i - 1], &files[i])))
            status = read_losses(s, l, files[i].file, &files[i]);
    for (size_t i = 0; i < paths->n && !status; i++)
        if (!dp_query_file_parse(paths->at[i], &other))
            status = read_losses(s, l, paths->at[i], NULL);
    if (!files || sum_shared(l)) {
        dp_query_print_error(s->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    free(files);
    return status;
}

/* Losses with the same words and number are one, of all their kinds. */
static void join_kinds(struct losses *l)
{
    for (size_t i = 0; i < l->at.n; i++)
        for (size_t j = 0; j < i; j++) {
            struct loss *a = &l->at.at[j], *b = &l->at.at[i];
            if (a->words != b->words || a->number != b->number || !a->kinds || !b->kinds)
                continue;
            a->kinds |= b->kinds;
            b->number = 0;
        }
}

/* Appends the losses of exactly these kinds, and forgets them. */
static size_t add_lines(struct losses *l, uint32_t kinds, char *text, size_t n, size_t room)
{
    const char *between = "";
    n += (size_t)snprintf(text + n, room - n, n ? "; in" : kinds ? "Lost in" : "Lost");
    for (unsigned kind = 0; kind < DP_KINDS && n < room; kind++)
        if (kinds >> kind & 1) {
            bool is_last = !(kinds >> kind >> 1);
            n += (size_t)snprintf(text + n, room - n, "%s %s", *between && is_last ? " and" : between,
                                  dp_kind_table[kind].name);
            between = ",";
        }
    between = ":";
    for (size_t i = 0; i < l->at.n; i++)
        if (l->at.at[i].kinds == kinds && l->at.at[i].number) {
            n = n < room ? n : room - 1;
            n += (size_t)snprintf(text + n, room - n, "%s %lld%s", between, (long long)l->at.at[i].number,
                                  dp_strings_at(&l->words, l->at.at[i].words));
            l->at.at[i].number = 0;
            between = ";";
        }
    return n < room ? n : room - 1;
}

/* The command that shows profiles of the kind; of one without stacks, none. */
static const char *verb_of(unsigned kind)
{
#define X(ID, name) [DP_KIND_##ID] = "top --kind " #name,
    static const char *const verbs[DP_KINDS] = {DP_KINDS_OF_DELTAS(X)};
#undef X
    return dp_kind_table[kind].rank == 0 ? "top" : verbs[kind]; /* which top shows of itself */
}

static bool is_before(const struct loss *a, const struct loss *b)
{
    int first_a = __builtin_ffs((int)a->kinds), first_b = __builtin_ffs((int)b->kinds);
    return first_a != first_b ? first_a < first_b : a->kinds < b->kinds;
}

/* The loss to be said next, by the order of kinds; those of no kind come first. NULL: none. */
static const struct loss *next_loss(const struct losses *l)
{
    const struct loss *found = NULL;
    for (size_t i = 0; i < l->at.n; i++)
        if (l->at.at[i].number && (!found || is_before(&l->at.at[i], found)))
            found = &l->at.at[i];
    return found;
}

static void say_losses(struct dp_summary_sentences *s, struct losses *l)
{
    struct dp_summary_sentence *to = dp_summary_sentences_add(s, "lost", 0.2);
    const struct loss *next;
    size_t n = 0;
    while (to && (next = next_loss(l))) {
        if (!to->verb && next->kinds)
            to->verb = verb_of((unsigned)__builtin_ctz(next->kinds));
        n = add_lines(l, next->kinds, to->text, n, sizeof to->text - 1);
    }
    if (to)
        snprintf(to->text + n, sizeof to->text - n, ".");
}

int dp_summary_sentences_lost(struct dp_summary_sentences *s, const struct dp_query_paths *paths)
{
    struct losses l = {.at = {0}};
    int status = dp_strings_add(&l.words, "", 0) == DP_STRINGS_NONE ? DP_EXIT_FAILED : read_all(s, &l, paths);
    join_kinds(&l);
    if (!status && next_loss(&l))
        say_losses(s, &l);
    else if (!status)
        dp_summary_sentences_looked(s, "nothing lost");
    dp_strings_fini(&l.words);
    dp_vec_fini(&l.at);
    dp_vec_fini(&l.shared);
    return status;
}
