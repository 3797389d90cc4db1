/* SPDX-License-Identifier: MIT */
/*
 * host/report/line_functions.c - writes each function of a profile once. The ids are not cleared after a profile: each
 * one says which profile it is of. Without memory for them the encoder finds a function by its strings.
 */
#include "host/report/line_functions.h"

#include "base/text.h"
#include "host/symbols/name_set.h"

#include <string.h>

#define PLACE_BYTES 300 /* 255 for a file name, and the place */

void dp_line_functions_begin(struct dp_line_functions *f)
{
    if (++f->profile)
        return;
    if (f->ids.at) /* ids of 2^32 profiles ago would look like ids of this one */
        memset(f->ids.at, 0, f->ids.n * sizeof *f->ids.at);
    f->profile = 1;
}

void dp_line_functions_fini(struct dp_line_functions *f)
{
    dp_vec_fini(&f->ids);
}

static int64_t kept_string(struct dp_encode *e, const char *kept)
{
    const struct dp_symbols_name *name = dp_symbols_name_of(kept);
    return name->is_utf8 ? dp_encode_string_hashed(e, kept, name->n_bytes, name->hash)
                         : dp_encode_string(e, kept, name->n_bytes);
}

static struct dp_line_function_id *place(struct dp_line_functions *f, uint32_t number)
{
    size_t want = 1024;
    while (want <= number)
        want *= 2;
    if (number >= f->ids.n && !dp_vec_room(&f->ids, want - f->ids.n))
        return NULL;
    if (number >= f->ids.n)
        f->ids.n = want;
    return &f->ids.at[number];
}

/* Most functions are a name and nothing else. is_once: the function is not given again, because its id is kept. */
static uint64_t write_function(struct dp_encode *e, const struct dp_symbols_function *kept, bool is_once)
{
    const struct dp_symbols_name *of = dp_symbols_name_of(kept->name);
    if (is_once && kept->system_name == kept->name && !kept->file && !kept->start_line && of->is_utf8 && of->n_bytes)
        return dp_encode_function_new(e, kept->name, of->n_bytes, of->hash);
    int64_t name = kept_string(e, kept->name);
    int64_t system_name = kept->system_name == kept->name ? name : kept_string(e, kept->system_name);
    int64_t file = kept->file ? kept_string(e, kept->file) : 0;
    return dp_encode_function(e, name, system_name, file, kept->start_line);
}

uint64_t dp_line_functions_add(struct dp_line_functions *f, struct dp_encode *e, const struct dp_symbols_function *kept)
{
    struct dp_line_function_id *at = place(f, kept->number);
    uint64_t id = write_function(e, kept, at != NULL);
    if (at && !dp_encode_error(e)) /* else a string may be missing, and the id be that of another function */
        *at = (struct dp_line_function_id){f->profile, (uint32_t)id};
    return id;
}

uint64_t dp_line_function(struct dp_encode *e, const struct dp_symbol_line *line)
{
    int64_t name = dp_encode_string(e, line->name, strlen(line->name));
    int64_t system_name = line->system_name ? dp_encode_string(e, line->system_name, strlen(line->system_name)) : name;
    int64_t file = line->file ? dp_encode_string(e, line->file, strlen(line->file)) : 0;
    return dp_encode_function(e, name, system_name, file, line->start_line);
}

uint64_t dp_line_function_place(struct dp_encode *e, const struct dp_symbols_mapping *map, uint64_t pc)
{
    char name[PLACE_BYTES];
    const char *file = map->file, *slash = strrchr(file, '/'); /* of a link its own name: the one that was run */
    dp_text_format(name, sizeof name, "%s+0x%llx", slash && slash[1] ? slash + 1 : file,
                   (unsigned long long)(pc - map->start + map->offset));
    return dp_line_function(e, &(struct dp_symbol_line){.name = name});
}
