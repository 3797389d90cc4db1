/* SPDX-License-Identifier: MIT */
/* tool/summary/sentence_parts.h - what the files that make the sentences of `deltaprof summary` share. */
#pragma once

#include "tool/summary/own_functions.h"

/* A new sentence; NULL: there are enough. */
struct dp_summary_sentence *dp_summary_sentences_add(struct dp_summary_sentences *, const char *kind, double weight);
/* Adds to what was looked at and was in order. */
void dp_summary_sentences_looked(struct dp_summary_sentences *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds a question that cannot be answered yet, by the kind of its sentence, and what would settle it. */
void dp_summary_sentences_open(struct dp_summary_sentences *, const char *kind, const char *needs);
/* Begins a query of its own for one question. A status. */
int dp_summary_sentences_query(struct dp_query *, const struct dp_summary_sentences *, const char *type, int at);
/* Whether there are profiles of a kind: a question about others would be an error. */
bool dp_summary_sentences_have_kind(const struct dp_query_paths *, const char *kind);
/* Notes which symbols are missing, if they are; to be called before the query ends. */
void dp_summary_sentences_note_symbols(struct dp_summary_sentences *, const struct dp_query *);
/* A length of time in words of a sentence: 400ms, 4.2s, 61s, 5min, 2.5h. */
void dp_summary_sentences_time(char *to, size_t n_bytes, int64_t ns);

/* Memory that malloc holds. A status. There must be heap profiles. */
int dp_summary_sentences_held(struct dp_summary_sentences *);
/* Memory in use that is only zeros. A status. The heap profiles must have zero_space. */
int dp_summary_sentences_zeros(struct dp_summary_sentences *);
/* What used most CPU time. A status. There must be cpu profiles. */
int dp_summary_sentences_cpu(struct dp_summary_sentences *);
/* What the profiler lost, of all kinds. A status. */
int dp_summary_sentences_lost(struct dp_summary_sentences *, const struct dp_query_paths *);
