/* SPDX-License-Identifier: MIT */
/*
 * formats/speedscope_read.c - reads a speedscope file (www.speedscope.app/file-format-schema.json) into pprof.
 *
 * A profile becomes a sample type of its own if deltaprof wrote the file, or if the profile has the name of one of
 * deltaprof's sample types: speedscope keeps the names when it saves a file again. The profiles of other programs are
 * threads, processes or parts of one measurement. They are added to one type for each kind of unit, and the label
 * `profile` has the name. Their times become nanoseconds, because they are often fractions of a second.
 *
 * An evented profile has no weights. The time from one event to the next counts for the stack of that moment; time in
 * which no frame is open is left out.
 */
#include "formats/formats.h"

#include "formats/json.h"
#include "formats/names.h"
#include "formats/stacks.h"
#include "profile/kinds.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct type {
    struct text {
        const char *at;
        size_t n_bytes;
    } name;
    const char *unit;
};

struct profile {
    const struct dp_json *json;
    struct text name;
    uint32_t type;
    int64_t scale; /* of its numbers, to the unit of the type */
    bool is_labelled;
};

struct reader {
    const struct dp_json_ops *ops;
    struct dp_decode_error *error;
    const struct dp_json *root, *frames;
    size_t n_frames;
    bool is_ours;
    DP_VEC(struct type) types;
    DP_VEC(struct profile) profiles;
    DP_VEC(uint64_t) locations; /* id by number of the frame; 0: not written */
    DP_VEC(uint64_t) path;      /* locations of the sample that is written */
    struct dp_formats_stacks stacks;
    struct dp_formats_named named;
};

extern const struct dp_json_ops dp_module_json __attribute__((weak)); /* where it is linked in */

static const struct {
    const char *name;
    int64_t ns; /* 0: no time */
} units[] = {{"none", 0},
             {"bytes", 0},
             {"nanoseconds", 1},
             {"microseconds", 1000},
             {"milliseconds", 1000000},
             {"seconds", 1000000000}};
enum { NONE, BYTES, TIME, N_UNITS = sizeof units / sizeof *units };

static struct text text_of(const struct reader *r, const struct dp_json *json)
{
    struct text text;
    text.at = r->ops->string(json, &text.n_bytes) ?: "";
    return text;
}

static bool is_text(struct text text, const char *other)
{
    return strlen(other) == text.n_bytes && !memcmp(text.at, other, text.n_bytes);
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

static bool is_deltaprofs_type(struct text name)
{
    char type[32];
    if (name.n_bytes >= sizeof type)
        return false;
    memcpy(type, name.at, name.n_bytes);
    type[name.n_bytes] = '\0';
    return dp_kind_type_is_known(type);
}

static bool has_fractions(const struct reader *r, const struct dp_json *numbers)
{
    int64_t whole;
    for (size_t i = 0; i < r->ops->length(numbers); i++)
        if (!r->ops->integer(r->ops->element(numbers, i), &whole))
            return true;
    return false;
}

static int add_type(struct reader *r, struct profile *p, struct text name, const char *unit)
{
    for (p->type = 0; !r->is_ours && p->type < r->types.n; p->type++) {
        const struct type *known = &r->types.at[p->type];
        if (known->name.n_bytes == name.n_bytes && !memcmp(known->name.at, name.at, name.n_bytes) &&
            !strcmp(known->unit, unit))
            return 0;
    }
    p->type = (uint32_t)r->types.n;
    struct type *type = dp_vec_push(&r->types);
    if (!type)
        return -ENOMEM;
    *type = (struct type){name, unit};
    return 0;
}

static int add_profile(struct reader *r, const struct dp_json *json)
{
    static const char *const names[] = {"samples", "space", "time"}, *const pprof[] = {"count", "bytes", "nanoseconds"};
    size_t number = r->profiles.n + 1, unit = 0;
    struct profile *p = dp_vec_push(&r->profiles);
    if (!p)
        return -ENOMEM;
    *p = (struct profile){.json = json, .name = text_of(r, r->ops->member(json, "name")), .scale = 1};
    const struct dp_json *unit_json = r->ops->member(json, "unit");
    struct text unit_name = text_of(r, unit_json);
    if (unit_json && !r->ops->string(unit_json, &unit_name.n_bytes))
        return dp_decode_fail(r->error, "profile %zu: the unit is no text", number);
    while (unit < N_UNITS && unit_name.n_bytes && !is_text(unit_name, units[unit].name))
        unit++;
    if (unit == N_UNITS)
        return dp_decode_fail(r->error, "profile %zu: unit %.40s is none of speedscope's", number, unit_name.at);
    int kind = unit < TIME ? (int)unit : TIME;
    bool has_own_type = r->is_ours || is_deltaprofs_type(p->name);
    if (r->is_ours && kind == TIME && !has_fractions(r, r->ops->member(json, "weights")))
        return add_type(r, p, p->name, units[unit].name);
    if (kind == TIME)
        p->scale = units[unit].ns;
    p->is_labelled = !has_own_type && r->ops->length(r->ops->member(r->root, "profiles")) > 1;
    return add_type(r, p, has_own_type ? p->name : (struct text){names[kind], strlen(names[kind])}, pprof[kind]);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* False: no number, or too large. */
static bool read_amount(const struct reader *r, const struct dp_json *json, int64_t scale, struct dp_formats_amount *to)
{
    int64_t whole;
    double value;
    *to = (struct dp_formats_amount){0};
    if (r->ops->integer(json, &whole))
        return !__builtin_mul_overflow(whole, scale, &to->whole);
    if (!r->ops->number(json, &value))
        return false;
    value *= (double)scale;
    if (!(value > -0x1p62 && value < 0x1p62))
        return false;
    to->whole = (int64_t)value;
    to->rest = value - (double)to->whole;
    return true;
}

static bool read_frame(const struct reader *r, const struct dp_json *json, uint32_t *frame)
{
    double number; /* some writers write 7.0 */
    if (!r->ops->number(json, &number) || !(number >= 0 && number < (double)r->n_frames))
        return false;
    *frame = (uint32_t)number;
    return number == *frame;
}

static bool is_negative(struct dp_formats_amount amount)
{
    return (double)amount.whole + amount.rest < 0;
}

static int add(struct reader *r, const struct profile *p, uint32_t node, struct dp_formats_amount amount)
{
    bool is_zero = amount.whole == 0 && amount.rest == 0; /* most events of a deep stack come at one time */
    int err = is_zero ? 0 : dp_formats_stacks_add(&r->stacks, node, p->type, amount);
    return err == -ERANGE ? dp_decode_fail(r->error, "the sum of a stack is too large") : err;
}

/* The stack without frames, of which there is one for each label. */
static uint32_t enter_root(struct reader *r, size_t number)
{
    uint32_t label = r->profiles.at[number].is_labelled ? (uint32_t)number + 1 : 0;
    return dp_formats_stacks_enter(&r->stacks, DP_FORMATS_ROOT, label);
}

static int read_sampled(struct reader *r, size_t number)
{
    const struct profile *p = &r->profiles.at[number];
    const struct dp_json *samples = r->ops->member(p->json, "samples"), *weights = r->ops->member(p->json, "weights");
    size_t n = r->ops->length(samples);
    int err = 0;
    if (!r->ops->is_array(samples) || !r->ops->is_array(weights) || n != r->ops->length(weights))
        return dp_decode_fail(r->error, "profile %zu: not one weight for each sample", number + 1);
    for (size_t i = 0; i < n && !err; i++) {
        const struct dp_json *stack = r->ops->element(samples, i);
        struct dp_formats_amount weight;
        uint32_t frame, node = enter_root(r, number);
        if (!r->ops->is_array(stack))
            return dp_decode_fail(r->error, "profile %zu, sample %zu: no stack", number + 1, i + 1);
        for (size_t k = 0; k < r->ops->length(stack) && node != DP_FORMATS_NONE; k++) { /* root first */
            if (!read_frame(r, r->ops->element(stack, k), &frame))
                return dp_decode_fail(r->error, "profile %zu, sample %zu: no such frame", number + 1, i + 1);
            node = dp_formats_stacks_enter(&r->stacks, node, frame);
        }
        if (!read_amount(r, r->ops->element(weights, i), p->scale, &weight) || is_negative(weight))
            return dp_decode_fail(r->error, "profile %zu, sample %zu: the weight is no number from 0 to 2^62",
                                  number + 1, i + 1);
        err = node == DP_FORMATS_NONE ? -ENOMEM : add(r, p, node, weight);
    }
    return err;
}

static int read_evented(struct reader *r, size_t number)
{
    const struct profile *p = &r->profiles.at[number];
    const struct dp_json *events = r->ops->member(p->json, "events");
    uint32_t root = enter_root(r, number), node = root;
    struct dp_formats_amount before = {0}, at;
    int err = root == DP_FORMATS_NONE ? -ENOMEM : 0;
    if (!r->ops->is_array(events))
        return dp_decode_fail(r->error, "profile %zu: no events", number + 1);
    for (size_t i = 0; i < r->ops->length(events) && !err; i++) {
        const struct dp_json *event = r->ops->element(events, i);
        struct text what = text_of(r, r->ops->member(event, "type"));
        bool opens = is_text(what, "O");
        uint32_t frame;
        struct dp_formats_amount past;
        if ((!opens && !is_text(what, "C")) || !read_frame(r, r->ops->member(event, "frame"), &frame) ||
            !read_amount(r, r->ops->member(event, "at"), p->scale, &at))
            return dp_decode_fail(r->error, "profile %zu, event %zu: no type O or C, frame and time", number + 1,
                                  i + 1);
        past.rest = at.rest - before.rest;
        if (i && (__builtin_sub_overflow(at.whole, before.whole, &past.whole) || is_negative(past)))
            return dp_decode_fail(r->error, "profile %zu, event %zu: before the event in front of it", number + 1,
                                  i + 1);
        if (node != root)
            err = add(r, p, node, past);
        before = at;
        if (!opens) {
            if (node == root || r->stacks.nodes.at[node].frame != frame)
                return dp_decode_fail(r->error, "profile %zu, event %zu: closes another frame than the last open one",
                                      number + 1, i + 1);
            node = r->stacks.nodes.at[node].parent;
        } else if ((node = dp_formats_stacks_enter(&r->stacks, node, frame)) == DP_FORMATS_NONE) {
            err = -ENOMEM;
        }
    }
    return err || node == root ? err : dp_decode_fail(r->error, "profile %zu: a frame stays open", number + 1);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static int read_profiles(struct reader *r)
{
    const struct dp_json *profiles = r->ops->member(r->root, "profiles");
    static const char ours[] = "deltaprof";
    struct text exporter = text_of(r, r->ops->member(r->root, "exporter"));
    int err = 0;
    r->frames = r->ops->member(r->ops->member(r->root, "shared"), "frames");
    r->n_frames = r->ops->length(r->frames);
    if (!r->ops->is_array(r->frames) || !r->ops->is_array(profiles))
        return dp_decode_fail(r->error, "JSON, but not speedscope's: it has no shared frames and profiles");
    if (r->n_frames >= UINT32_MAX || r->ops->length(profiles) >= UINT32_MAX)
        return -ENOMEM;
    r->is_ours = is_text(exporter, ours);
    for (size_t i = 0; i < r->ops->length(profiles) && !err; i++)
        err = add_profile(r, r->ops->element(profiles, i));
    if (!err && !r->types.n)
        return dp_decode_fail(r->error, "a speedscope file without a profile");
    r->stacks.n_types = (uint32_t)r->types.n;
    for (size_t i = 0; i < r->profiles.n && !err; i++) {
        struct text kind = text_of(r, r->ops->member(r->profiles.at[i].json, "type"));
        err = is_text(kind, "sampled")   ? read_sampled(r, i)
              : is_text(kind, "evented") ? read_evented(r, i)
                                         : dp_decode_fail(r->error, "profile %zu: neither sampled nor evented", i + 1);
    }
    return err;
}

/* ---- pprof ------------------------------------------------------------------------------------------------------ */

static int64_t positive(const struct reader *r, const struct dp_json *json)
{
    double number;
    return r->ops->number(json, &number) && number > 0 && number < 0x1p53 ? (int64_t)number : 0;
}

/* The location of a frame, which is written when it is first asked for. 0: no memory. */
static uint64_t location_of(struct reader *r, uint32_t number)
{
    uint64_t *id = &r->locations.at[number];
    if (*id)
        return *id;
    const struct dp_json *json = r->ops->element(r->frames, number);
    struct text name = text_of(r, r->ops->member(json, "name")), file = text_of(r, r->ops->member(json, "file"));
    if (!name.n_bytes)
        name = (struct text){"[no name]", 9};
    struct dp_formats_frame frame = {.name = name.at,
                                     .file = file.at,
                                     .n_name = name.n_bytes,
                                     .n_file = file.n_bytes,
                                     .line = positive(r, r->ops->member(json, "line")),
                                     .column = positive(r, r->ops->member(json, "col"))};
    dp_formats_named_begin(&r->named);
    if (!dp_formats_named_frame(&r->named, &frame))
        *id = r->named.stack.at[0];
    return *id;
}

static int write_header(struct reader *r)
{
    DP_VEC(struct dp_encode_value_type) types = {0};
    struct dp_encode_header header = {.n_types = r->types.n};
    int64_t active = positive(r, r->ops->member(r->root, "activeProfileIndex"));
    if (!(header.types = dp_vec_room(&types, r->types.n)))
        return -ENOMEM;
    for (size_t i = 0; i < r->types.n; i++)
        types.at[i] = (struct dp_encode_value_type){r->types.at[i].name.at, r->types.at[i].unit};
    if (r->is_ours && (uint64_t)active < r->types.n)
        header.default_type = types.at[active].type;
    dp_encode_header(r->named.encode, &header);
    dp_vec_fini(&types);
    return 0;
}

static int write_sample(struct reader *r, const struct dp_formats_node *node, int64_t *values)
{
    const struct dp_formats_node *nodes = r->stacks.nodes.at;
    struct dp_encode_label label = {0};
    if (dp_formats_stacks_values(&r->stacks, node->row - 1, values))
        return dp_decode_fail(r->error, "the sum of a stack is too large");
    if (dp_encode_is_zero(values, r->types.n))
        return 0;
    dp_vec_clear(&r->path);
    for (; node->parent != DP_FORMATS_ROOT; node = &nodes[node->parent]) { /* leaf first */
        uint64_t *to = dp_vec_push(&r->path);
        if (!to || !(*to = location_of(r, node->frame)))
            return -ENOMEM;
    }
    if (node->frame) { /* of the root: the number of the profile */
        struct text name = r->profiles.at[node->frame - 1].name;
        label.key = dp_encode_string(r->named.encode, "profile", 7);
        label.str = dp_encode_string(r->named.encode, name.at, name.n_bytes);
    }
    dp_encode_sample(r->named.encode, r->path.at, r->path.n, values, &label, label.str != 0);
    return 0;
}

static int write_pprof(struct reader *r)
{
    DP_VEC(int64_t) values = {0};
    int err = write_header(r);
    if (!dp_vec_room(&values, r->types.n) || !dp_vec_room(&r->locations, r->n_frames + 1) || !dp_vec_room(&r->path, 1))
        err = -ENOMEM;
    for (size_t i = 0; i < r->stacks.nodes.n && !err; i++)
        if (r->stacks.nodes.at[i].row)
            err = write_sample(r, &r->stacks.nodes.at[i], values.at);
    dp_vec_fini(&values);
    return err ? err : dp_encode_finish(r->named.encode);
}

int dp_formats_read_speedscope(const uint8_t *bytes, size_t n_bytes, const char *module_dir, dp_pprof_write_fn fn,
                               void *ctx, struct dp_decode_error *error)
{
    static struct dp_module module = {.name = "json"};
    module.dir = module_dir;
    struct reader r = {.ops = &dp_module_json ? &dp_module_json : dp_module_open(&module), .error = error};
    char why[200] = "";
    if (!r.ops)
        return dp_decode_fail(error, "JSON is read by the module json, with libjansson: %s",
                              dp_load_acquire(&module.error));
    int err = r.ops->open((const char *)bytes, n_bytes, dp_mem_left(), &r.root, why, sizeof why);
    if (err)
        return err == -EBADMSG ? dp_decode_fail(error, "no JSON, or broken: %s", why) : err;
    r.named.encode = dp_encode_new(fn, ctx);
    err = r.named.encode ? read_profiles(&r) : -ENOMEM;
    err = err ? err : write_pprof(&r);
    r.ops->close(r.root);
    dp_formats_named_fini(&r.named);
    dp_formats_stacks_fini(&r.stacks);
    dp_vec_fini(&r.types);
    dp_vec_fini(&r.profiles);
    dp_vec_fini(&r.locations);
    dp_vec_fini(&r.path);
    return err;
}
