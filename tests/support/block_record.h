/* SPDX-License-Identifier: MIT */
/* block_record.h - for tests of waits: starts the tables and reports, with one block record. */
#pragma once

#include "host/api/recording.h"
#include "host/report/settings.h"
#include "host/table/record.h"

static dp_record_id record;

static int start(void **state)
{
    static const dp_frame_id frame = DP_FRAME_HAND_OVER;
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    struct dp_config conf;
    dp_config_init(&conf);
    conf.symbolize = DP_SYMBOLIZE_NONE;
    int err = dp_record_init(&conf) || dp_report_init(&conf);
    return err || !dp_record_intern(DP_KIND_BLOCK, 0, &stack, &record);
}
