/* SPDX-License-Identifier: MIT */
/*
 * host/locks/chain_source.h - the stack of a chain as a profile shows it, one tower of waiter and holder:
 *
 *     root of the waiter > ... > where it waits > [held by] > the holder's unlock > ... > root of the holder
 *     root of the waiter > ... > where it waits > [hand-over]
 */
#pragma once

#include "host/table/table.h"

/*
 * Fills frames (DP_EMIT_STACK_MAX), the leaf first: so the holder's root. Returns their number. *n_holder: the number
 * of the holder's.
 */
size_t dp_chain_tower(const struct dp_record *, dp_frame_id *frames, size_t *n_holder);
