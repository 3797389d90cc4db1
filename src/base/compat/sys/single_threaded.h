/* SPDX-License-Identifier: MIT */
/*
 * sys/single_threaded.h - for a glibc before 2.32, which has none: it does not say, so there may always be threads. The
 * compiler looks here last (-idirafter).
 */
#pragma once

static const char __libc_single_threaded = 0;
