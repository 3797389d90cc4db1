/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/lost_sentence.c - says what the profiler lost, and of which kinds. A loss that several kinds tell with
 * the same number is said once, for all of them.
 */
#include "tool/summary/sentence_parts.h"

#include "profile/kinds.h"
#include "tool/query/files.h"
#include "tool/query/print.h"

#include <stdio.h>
#include <stdlib.h>

int dp_summary_sentences_note_losses(struct dp_summary_sentences *s, const struct dp_query *v, unsigned kind)
{
    for (uint32_t i = 1; i < dp_strings_count(&v->losses); i++) {
        const char *text = dp_strings_at(&v->losses, i);
        uint32_t number = dp_strings_add(&s->lost, text, dp_strings_size(&v->losses, i));
        while (number != DP_STRINGS_NONE && s->lost_kinds.n <= number) {
            uint32_t *kinds = dp_vec_push(&s->lost_kinds);
            number = kinds ? number : DP_STRINGS_NONE;
            if (kinds)
                *kinds = 0;
        }
        if (number == DP_STRINGS_NONE) {
            dp_query_print_error(s->verb, "out of memory");
            return DP_EXIT_FAILED;
        }
        s->lost_kinds.at[number] |= 1u << kind;
    }
    return 0;
}

/* Of each process its newest profile of a kind that no other sentence is about. */
static int read_kind(struct dp_summary_sentences *s, const struct dp_query_file *files, size_t n, unsigned kind)
{
    struct dp_query sums;
    int status = dp_summary_sentences_query(&sums, s, NULL, DP_QUERY_AT_USUAL);
    for (size_t i = 0; i < n && !status; i++) {
        struct dp_query_source source = {.is_quiet = true};
        bool is_newest = !i || !dp_query_file_is_same(&files[i - 1], &files[i]);
        if (files[i].kind_id != kind || !is_newest)
            continue;
        if (!dp_query_read_file(s->verb, files[i].file, s->limit_bytes, &source) &&
            dp_query_losses_add(&sums, &source.decode))
            status = DP_EXIT_FAILED;
        dp_query_source_fini(&source);
    }
    if (status || dp_query_losses_sum(&sums)) {
        dp_query_print_error(s->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    status = status ? status : dp_summary_sentences_note_losses(s, &sums, kind);
    dp_query_fini(&sums);
    return status;
}

static int read_others(struct dp_summary_sentences *s, const struct dp_query_paths *paths)
{
    static const unsigned kinds[] = {DP_KIND_BLOCK, DP_KIND_CHAIN, DP_KIND_EVENTS};
    struct dp_query_file *files = calloc(paths->n + 1, sizeof *files);
    size_t n = files ? dp_query_files_sort(paths->at, paths->n, files) : 0;
    int status = files ? 0 : DP_EXIT_FAILED;
    if (status)
        dp_query_print_error(s->verb, "out of memory");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !status; i++)
        status = read_kind(s, files, n, kinds[i]);
    free(files);
    return status;
}

/* Appends the losses of exactly these kinds, and forgets them. */
static size_t add_lines(struct dp_summary_sentences *s, uint32_t kinds, char *text, size_t n, size_t room)
{
    const char *between = "";
    n += (size_t)snprintf(text + n, room - n, n ? "; in" : "Lost in");
    for (unsigned kind = 0; kind < DP_KINDS && n < room; kind++)
        if (kinds >> kind & 1) {
            bool is_last = !(kinds >> kind >> 1);
            n += (size_t)snprintf(text + n, room - n, "%s %s", *between && is_last ? " and" : between,
                                  dp_kind_table[kind].name);
            between = ",";
        }
    between = ":";
    for (uint32_t i = 0; i < s->lost_kinds.n && n < room; i++)
        if (s->lost_kinds.at[i] == kinds) {
            n += (size_t)snprintf(text + n, room - n, "%s %s", between, dp_strings_at(&s->lost, i));
            s->lost_kinds.at[i] = 0;
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
    return kind == DP_KIND_HEAP ? "top" : verbs[kind];
}

int dp_summary_sentences_lost(struct dp_summary_sentences *s, const struct dp_query_paths *paths)
{
    int status = read_others(s, paths);
    struct dp_summary_sentence *to = !status && s->lost_kinds.n ? dp_summary_sentences_add(s, "lost", 0.2) : NULL;
    size_t n = 0;
    if (!status && !s->lost_kinds.n)
        dp_summary_sentences_looked(s, "nothing lost");
    for (size_t i = 0; to && i < s->lost_kinds.n; i++)
        if (s->lost_kinds.at[i]) {
            if (!n)
                to->verb = verb_of((unsigned)__builtin_ctz(s->lost_kinds.at[i]));
            n = add_lines(s, s->lost_kinds.at[i], to->text, n, sizeof to->text - 1);
        }
    if (to)
        snprintf(to->text + n, sizeof to->text - n, ".");
    return status;
}
