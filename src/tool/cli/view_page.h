/* SPDX-License-Identifier: MIT */
/* tool/cli/view_page.h - the page as a file. */
#pragma once

#include "tool/cli/out.h"
#include "tool/pack/pack.h"

/* Writes the whole page. 0 or a negative errno. */
int dp_cli_view_page(struct dp_pack *, struct dp_cli_out *);
