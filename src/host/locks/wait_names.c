/* SPDX-License-Identifier: MIT */
/* host/locks/wait_names.c - the name of a frame: of its function, of a synthetic frame, or its place; the place of a
 * lock. */
#include "host/locks/wait_names.h"

#include "base/text.h"
#include "host/objects/frames.h"
#include "host/locks/lock_names.h"
#include "host/locks/lock_seen.h"
#include "host/report/data_place.h"
#include "host/report/table_source.h"
#include "host/report/text_profile.h"
#include "host/report/text_frames.h"
#include "host/shared/shared.h"
#include "host/symbols/symbols_lock.h"
#include "host/symbols/maps.h"
#include "host/symbols/outside.h"

#include <deltaprof/locks.h>

int dp_waits_names_begin(struct dp_waits_names *names)
{
    *names = (struct dp_waits_names){0};
    dp_symbols_load(DP_SYMBOLIZE_FUNCTIONS);
    dp_symbols_lock(true);
    int err = dp_symbols_maps_begin();
    dp_symbols_unlock();
    if (!err)
        dp_lock_learn(DP_KIND_BLOCK, DP_SYMBOLIZE_FUNCTIONS, &names->files, NULL);
    return err;
}

void dp_waits_names_end(struct dp_waits_names *names)
{
    dp_symbols_close(&names->files);
}

unsigned dp_waits_depth(unsigned kind, dp_record_id id)
{
    const struct dp_record *record = dp_table_record(kind, id);
    unsigned n_inside;
    return record->depth + (dp_report_table_frame_called(kind, record, &n_inside) != 0);
}

size_t dp_waits_name(struct dp_waits_names *names, unsigned kind, dp_record_id id, unsigned i, char *name, size_t size)
{
    const struct dp_record *record = dp_table_record(kind, id);
    unsigned n_inside;
    dp_frame_id called = dp_report_table_frame_called(kind, record, &n_inside), frame_id = called;
    if (!called || i)
        frame_id = dp_table_frames(record)[i - (called != 0)];
    const struct dp_frame *frame = dp_frame_get(frame_id);
    if (frame->type != DP_FRAME_CODE) {
        const char *synthetic = dp_frame_synthetic_name(frame_id);
        return synthetic ? dp_text_format(name, size, "%s", synthetic) : 0;
    }
    size_t n = dp_report_text_name_of(&names->files, frame_id, frame->pc, name, size);
    return n ? n : dp_report_text_place_of(frame_id, name, size);
}

size_t dp_waits_lock_place(struct dp_waits_names *names, const struct dp_waiting *wait, char *text, size_t size)
{
    const struct dp_location_settings how = {.symbolize = DP_SYMBOLIZE_FUNCTIONS, .files = &names->files};
    int64_t word = dp_load_acquire(dp_table_word(DP_KIND_BLOCK, wait->record)); /* [SEEN] */
    bool is_seen = wait->lock && dp_lock_seen_address(word) == wait->lock;
    /* Else another wait of this stack, for another lock, was longer. Of another process only what it noted is known. */
    dp_frame_id frame = is_seen ? dp_lock_seen_frame(word)
                        : wait->lock && !dp_symbols_outside.is_on && dp_shared_may_write()
                            ? dp_frame_intern_data(wait->lock)
                            : 0;
    return wait->kind == DELTAPROF_LOCK_JOIN ? 0 : dp_report_data_place(wait->lock, frame, &how, text, size);
}
