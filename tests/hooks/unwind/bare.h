/* SPDX-License-Identifier: MIT */
/* bare.h - the functions of victim_bare that have no unwind data. */
#pragma once

#define APART __attribute__((noinline, noclone))

typedef void called_fn(int n);

void bare_ends(int n, called_fn *called);
void bare_sorts(called_fn *called);
unsigned bare_spins(unsigned n);
