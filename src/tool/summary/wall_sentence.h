/* SPDX-License-Identifier: MIT */
/* tool/summary/wall_sentence.h - the sentence about where threads spent their time. */
#pragma once

#include "tool/summary/sentences.h"
#include "tool/query/paths.h"

/* 0, also without wall profiles; or DP_EXIT_FAILED after one line on stderr. */
int dp_summary_sentences_wall(struct dp_summary_sentences *, const struct dp_query_paths *);
