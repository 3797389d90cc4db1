/* SPDX-License-Identifier: MIT */
/*
 * A stack through a library that is closed, then the same stack, word for word, through another in its place: whatever
 * is remembered of the first names the wrong file.
 */
#include "support/unit.h"

#include <dlfcn.h>
#include <string.h>

#include "host/objects/frames.h"
#include "host/objects/loader.h"
#include "host/objects/objects.h"
#include "host/api/recording.h"
#include "host/table/table.h"

#include <deltaprof/hooks.h>

enum { LIBRARIES = 4 };

static char **library; /* the arguments: alike but for their build-ids */

static int event(void)
{
    deltaprof_alloc(0, &library, 8);
    deltaprof_free(0, &library);
    return 1;
}

/* The file whose code called event, as the newest record has it. */
static const char *caller(void)
{
    const struct dp_record *record = dp_table_record(DP_KIND_HEAP, dp_table_count(DP_KIND_HEAP) - 1);
    assert_true(record->depth > 2);
    return dp_object_name(dp_object_get(dp_frame_get(dp_table_frames(record)[1])->object));
}

struct opened {
    void *handle;
    int (*call)(int (*)(void));
};

static struct opened open_library(int i)
{
    struct opened o = {.handle = dlopen(library[i], RTLD_NOW | RTLD_LOCAL)};
    assert_non_null(o.handle);
    *(void **)&o.call = dlsym(o.handle, "plugin_call");
    return o;
}

static void close_library(const struct opened *o)
{
    dp_objects_unload_begin();
    dlclose(o->handle);
    dp_objects_unload_end();
}

/* Each library once, one after the other, at the place of the one before. The caller's frame is the same each time. */
static void each_in_turn(void)
{
#ifndef __SANITIZE_ADDRESS__
    int (*before)(int (*)(void)) = NULL;
#endif
    for (int i = 0; i < LIBRARIES; i++) {
        struct opened o = open_library(i);
#ifndef __SANITIZE_ADDRESS__ /* which maps memory of its own in between */
        assert_true(!before || o.call == before);
        before = o.call;
#endif
        uint32_t known = dp_table_count(DP_KIND_HEAP);
        assert_int_equal(o.call(event), i + 2);
        assert_int_equal(dp_table_count(DP_KIND_HEAP), known + 1); /* a stack of its own */
        if (dp_loader_answers()) /* an older glibc leaves its headers, not the name of its file */
            assert_string_equal(caller(), library[i]);
        close_library(&o);
    }
}

TEST(nothing_is_remembered_of_a_closed_library)
{
    each_in_turn();
}

TEST(nothing_is_remembered_while_another_thread_closes_one)
{
    dp_objects_unload_begin();
    each_in_turn();
    dp_objects_unload_end();
}

static int starts(void **state)
{
    struct dp_config conf;
    dp_config_init(&conf);
    conf.heap_rate = 1;
    if (dp_record_init(&conf))
        return -1;
    dp_record_tune(&conf, true);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 1 + LIBRARIES)
        return 1;
    library = argv + 1;
    return run_unit(starts, NULL);
}
