/* SPDX-License-Identifier: MIT */
/*
 * cli/help.c - prints the configuration table: key, what it takes and its default on one line, its meaning below.
 */
#include "cli/help.h"

#include "config/config.h"

void dp_cli_print_keys(FILE *to)
{
    const struct dp_config_key *key;
    for (size_t i = 0; (key = dp_config_key(i)); i++)
        fprintf(to, "  %s=%s (default %s)\n      %s\n", key->key, key->type, key->value_default, key->help);
}
