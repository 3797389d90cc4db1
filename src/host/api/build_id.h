/* SPDX-License-Identifier: MIT */
/* host/api/build_id.h - the build-id of this library, which the files of its tables carry. */
#pragma once

#include "tmpfs/table_file.h"

/* Fills it in. Takes the loader's lock. */
void dp_outside_build_id(struct dp_tables_file *header);
