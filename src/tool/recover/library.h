/* SPDX-License-Identifier: MIT */
/* tool/recover/library.h - finds libdeltaprof beside this program. */
#pragma once

#include <deltaprof/outside.h>
#include <stddef.h>

/* The functions of the library; NULL: it cannot be loaded, and why tells the reason. */
const struct deltaprof_outside *dp_recover_library(char *why, size_t n_why);

/* Executes this program again, with the library loaded from the begin. Returns only if that cannot be done. */
void dp_recover_library_preload(char **argv);
