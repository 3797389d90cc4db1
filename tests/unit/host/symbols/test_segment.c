/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "host/symbols/segment.h"

TEST(the_segment_of_our_own_code_is_found)
{
    struct dp_symbols_segments s = {0};
    for (int again = 0; again < 2; again++) {
        assert_int_equal(dp_symbols_segments_read(&s), 0);
        uintptr_t here = (uintptr_t)the_segment_of_our_own_code_is_found;
        const struct dp_symbols_segment *found = dp_symbols_segments_find(&s, here);
        assert_non_null(found);
        assert_true(found->start <= here && here < found->limit);
        assert_true(found->n_path > strlen("test_segment"));
        assert_memory_equal(s.text.at + found->path + found->n_path - strlen("test_segment"), "test_segment",
                            strlen("test_segment"));
        assert_null(dp_symbols_segments_find(&s, 16));
        assert_null(dp_symbols_segments_find(&s, (uintptr_t)&s)); /* a stack is not code */
    }
    dp_symbols_segments_fini(&s);
}

TEST(a_file_tells_what_the_kernel_mapped)
{
    struct dp_symbols_segments s = {0};
    assert_int_equal(dp_symbols_segments_read(&s), 0);
    Dl_info info;
    struct link_map *map;
    assert_true(dladdr1(dlsym(RTLD_DEFAULT, "getpid"), &info, (void **)&map, RTLD_DL_LINKMAP));
    uintptr_t pc = (uintptr_t)dlsym(RTLD_DEFAULT, "getpid");
    const struct dp_symbols_segment *mapped = dp_symbols_segments_find(&s, pc);
    struct dp_symbols_segment in_file;
    assert_int_equal(dp_symbols_segment_of_file(info.dli_fname, NULL, 0, map->l_addr, pc, &in_file), 0);
    assert_int_equal(in_file.start, mapped->start);
    assert_int_equal(in_file.limit, mapped->limit);
    assert_int_equal(in_file.offset, mapped->offset);
    assert_int_equal(dp_symbols_segment_of_file(info.dli_fname, (const uint8_t *)"wrong", 5, map->l_addr, pc, &in_file),
                     -ESTALE);
    assert_int_equal(dp_symbols_segment_of_file("/dev/null", NULL, 0, 0, 0, &in_file), -ENOEXEC);
    assert_int_equal(dp_symbols_segment_of_file("/no/such/file", NULL, 0, 0, 0, &in_file), -ENOENT);
    dp_symbols_segments_fini(&s);
}

UNIT(NULL, NULL)
