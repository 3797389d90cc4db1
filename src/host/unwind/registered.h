/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/registered.h - unwind rules of code that the program generated and registered (hooks.h:
 * deltaprof_code_registered).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The rule for pc, an address in no loaded file: dp_rule_hosted() if its table has a handler of exceptions and no
 * rules. False: no table that was registered has it. Context: hook.
 */
bool dp_registered_find(uintptr_t pc, uint32_t *rule);
