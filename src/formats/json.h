/* SPDX-License-Identifier: MIT */
/*
 * formats/json.h - interface of the json module, which parses a JSON document into a tree.
 *
 * A value is a pointer into the tree; it lives until the document is closed. The functions take NULL, which is the
 * value that is not there.
 */
#pragma once

#include "base/module.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_json;

struct dp_json_ops {
    struct dp_module_ops base;
    /*
     * Parses UTF-8 text with at most most_bytes of memory; one document is open at a time. 0; -EBADMSG with one line in
     * why: a fault of the text, which may be a number beyond int64 and double, a NUL in a string, a key twice in an
     * object, or too deep nesting; -ENOMEM.
     */
    int (*open)(const char *text, size_t n_bytes, size_t most_bytes, const struct dp_json **root, char *why,
                size_t n_why);
    void (*close)(const struct dp_json *root);
    const struct dp_json *(*member)(const struct dp_json *object, const char *key); /* NULL: no such key, no object */
    bool (*is_array)(const struct dp_json *);
    size_t (*length)(const struct dp_json *array); /* 0: no array */
    const struct dp_json *(*element)(const struct dp_json *array, size_t i);
    const char *(*string)(const struct dp_json *, size_t *n_bytes); /* a NUL follows; NULL: no string */
    bool (*integer)(const struct dp_json *, int64_t *);             /* false: no integer */
    bool (*number)(const struct dp_json *, double *);               /* an integer, too; false: no number */
};
