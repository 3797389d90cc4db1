/* SPDX-License-Identifier: MIT */
/* otel_plugin - an SDK that a program opens: its thread-local variable, by several models, alone or beside many others.
 */
#include "otel_writer.h"

#ifndef OTHERS
#define OTHERS 1
#endif

__attribute__((visibility("default"))) _Thread_local struct otel_record *volatile otel_thread_ctx_v1;
__attribute__((visibility("default"))) _Thread_local volatile char others[OTHERS];

__attribute__((visibility("default"))) void plugin_attach(struct otel_record *record, uint8_t trace, uint8_t span)
{
    others[OTHERS - 1] = 1;
    if (record)
        attach_context(record, trace, span);
    else
        otel_thread_ctx_v1 = NULL;
}
