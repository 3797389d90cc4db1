/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/shared_rules.h - shares unwind rules between a process and all processes forked from it: of many
 * short-lived workers only the first one reads unwind tables.
 */
#pragma once

#include "host/objects/frames.h"

#include <stdbool.h>

/*
 * In a process that forks again and again, before a fork: maps the shared memory, if that is not done. Processes forked
 * later share the rules of the objects that are known now. False: there is no memory that this process may add objects
 * to. Context: any thread; async-signal-safe.
 */
bool dp_shared_rules_learn(void);

/* Finds the rule of the code at lookup_pc in an object. False: not known. Context: hook. */
bool dp_shared_rules_find(dp_object_id, uintptr_t lookup_pc, uint32_t *rule);

/* Shares a rule, if it can be. Context: hook. */
void dp_shared_rules_put(dp_object_id, uintptr_t lookup_pc, uint32_t rule);

/* In the child. Only stores. */
void dp_shared_rules_fork_child(void);
