/* SPDX-License-Identifier: MIT */
/* tool/cli/wall_sentence.h - the sentence about where threads spent their time. */
#pragma once

#include "tool/cli/sentences.h"
#include "tool/query/paths.h"

/* 0, also without wall profiles; or DP_EXIT_FAILED after one line on stderr. */
int dp_cli_wall_sentence_find(struct dp_cli_sentences *, const struct dp_query_paths *);
