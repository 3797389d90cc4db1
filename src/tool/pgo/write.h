/* SPDX-License-Identifier: MIT */
/* tool/pgo/write.h - writes profiles in the forms that compilers and linkers read. */
#pragma once

#include "pprof/gzip.h"
#include "tool/pgo/source_profile.h"

/* LLVM's sample profile as text, for -fprofile-sample-use. 0 or fn's error. */
int dp_pgo_write_clang(const struct dp_pgo_profile *, dp_pprof_write_fn fn, void *ctx);

/* The addresses of samples, for perf2bolt --pa --ba. 0 or fn's error. */
int dp_pgo_write_bolt(const struct dp_pgo_samples *, dp_pprof_write_fn fn, void *ctx);
