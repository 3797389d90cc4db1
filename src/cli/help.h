/* SPDX-License-Identifier: MIT */
/* cli/help.h - the configuration table as text for a terminal. */
#pragma once

#include <stdio.h>

void dp_cli_print_keys(FILE *to);
