/* SPDX-License-Identifier: MIT */
/*
 * modules/json.c - the json module: parses JSON with Jansson. Only the command opens it.
 *
 * Jansson refuses nesting deeper than 2,048, numbers that do not fit, NUL in strings and bytes that are no UTF-8. Its
 * memory is counted here, because a tree needs many times the bytes of its text.
 */
#include "formats/json.h"

#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

static size_t left_bytes; /* that the document may still allocate */
static bool is_short;     /* an allocation failed; Jansson does not always say so */

static void *take(size_t n_bytes)
{
    void *block = n_bytes <= left_bytes ? malloc(n_bytes) : NULL;
    size_t taken = block ? malloc_usable_size(block) : 0;
    is_short |= !block;
    left_bytes -= taken < left_bytes ? taken : left_bytes;
    return block;
}

static void put_back(void *block)
{
    left_bytes += malloc_usable_size(block);
    free(block);
}

static const json_t *value(const struct dp_json *json)
{
    return (const json_t *)json;
}

static int open_document(const char *text, size_t n_bytes, size_t most_bytes, const struct dp_json **root, char *why,
                         size_t n_why)
{
    json_error_t error;
    left_bytes = most_bytes;
    is_short = false;
    json_set_alloc_funcs(take, put_back);
    json_t *parsed = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    *root = (const struct dp_json *)parsed;
    if (parsed)
        return 0;
    if (is_short)
        return -ENOMEM;
    snprintf(why, n_why, "line %d, column %d: %s", error.line, error.column, error.text);
    return -EBADMSG;
}

static void close_document(const struct dp_json *root)
{
    json_decref((json_t *)(uintptr_t)root);
}

static const struct dp_json *member(const struct dp_json *object, const char *key)
{
    return (const struct dp_json *)json_object_get(value(object), key);
}

static bool is_array(const struct dp_json *json)
{
    return json_is_array(value(json));
}

static size_t length(const struct dp_json *array)
{
    return json_array_size(value(array));
}

static const struct dp_json *element(const struct dp_json *array, size_t i)
{
    return (const struct dp_json *)json_array_get(value(array), i);
}

static const char *string(const struct dp_json *json, size_t *n_bytes)
{
    *n_bytes = json_string_length(value(json));
    return json_string_value(value(json));
}

static bool integer(const struct dp_json *json, int64_t *number)
{
    *number = json_integer_value(value(json));
    return json_is_integer(value(json));
}

static bool number(const struct dp_json *json, double *number)
{
    *number = json_number_value(value(json));
    return json_is_number(value(json));
}

__attribute__((visibility("default"))) const struct dp_json_ops dp_module_json = {
    .base = {.abi = DP_MODULE_ABI, .file = "libjansson", .probe = (const void *)json_loadb},
    .open = open_document,
    .close = close_document,
    .member = member,
    .is_array = is_array,
    .length = length,
    .element = element,
    .string = string,
    .integer = integer,
    .number = number,
};
