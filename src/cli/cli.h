/* SPDX-License-Identifier: MIT */
/*
 * cli/cli.h - the subcommands. Each gets its own word as argv[0] and gives the exit status: 0, 1 (an input or an output
 * failed, one line on stderr says what and where), 2 (wrong usage).
 */
#pragma once

int dp_cli_top(int argc, char **argv);
int dp_cli_merge(int argc, char **argv);
int dp_cli_diff(int argc, char **argv);
