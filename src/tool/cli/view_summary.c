/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/view_summary.c - puts the sentences of `deltaprof summary` into the page of `deltaprof view`.
 * src/view/pack.js describes the numbers.
 */
#include "tool/cli/view_summary.h"

#include "tool/cli/cli.h"
#include "tool/summary/sentences.h"
#include "tool/query/print.h"

#include <errno.h>

static int put_text(struct dp_pack *pack, const char *text)
{
    uint32_t number;
    int err = dp_pack_intern_text(pack, text, &number);
    uint64_t *to = err ? NULL : dp_vec_push(&pack->sentences);
    if (!to)
        return -ENOMEM;
    *to = number;
    return 0;
}

static int put_sentence(struct dp_pack *pack, const struct dp_summary_sentences *s,
                        const struct dp_summary_sentence *it)
{
    char function[256] = "";
    const char *at = NULL;
    if (it->stack != DP_STRINGS_NONE)
        dp_query_stacks_next(&s->stacks, it->stack, &at, function, sizeof function);
    return put_text(pack, it->kind) ?: put_text(pack, it->text) ?: put_text(pack, it->verb) ?: put_text(pack, function);
}

int dp_cli_view_summary(struct dp_pack *pack, char **files, size_t n, size_t limit_bytes)
{
    struct dp_summary_sentences s = {.verb = "view", .paths = files, .n_paths = n, .limit_bytes = limit_bytes};
    int status = dp_summary_sentences_find(&s), err = 0;
    for (size_t i = 0; i < s.n && !status && !err; i++)
        err = put_sentence(pack, &s, &s.at[i]);
    if (err) {
        dp_query_print_error("view", "out of memory");
        status = DP_EXIT_FAILED;
    }
    dp_summary_sentences_fini(&s);
    return status;
}
