/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/otlp.h - field numbers of the messages of OTLP profiles that are written here.
 *
 * Source: opentelemetry-proto 1.11, opentelemetry/proto/profiles/v1development/profiles.proto, common/v1/common.proto,
 * resource/v1/resource.proto. Attributes of pprof: OpenTelemetry's semantic conventions, `pprof.*`.
 */
#pragma once

enum { REQUEST_RESOURCE_PROFILES = 1, REQUEST_DICTIONARY = 2 };
enum { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPE_PROFILES = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILES = 2 };
enum { SCOPE_NAME = 1, SCOPE_VERSION = 2, SCOPE_ATTRIBUTES = 3 };
enum {
    PROFILE_TYPE = 1,
    PROFILE_SAMPLES = 2,
    PROFILE_TIME = 3,
    PROFILE_DURATION = 4,
    PROFILE_PERIOD_TYPE = 5,
    PROFILE_PERIOD = 6,
    PROFILE_ID = 7,
    PROFILE_ATTRIBUTES = 11
};
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT = 2 };
enum { SAMPLE_STACK = 1, SAMPLE_ATTRIBUTES = 2, SAMPLE_LINK = 3, SAMPLE_VALUES = 4, SAMPLE_TIMESTAMPS = 5 };
enum { MAPPING_START = 1, MAPPING_LIMIT = 2, MAPPING_OFFSET = 3, MAPPING_FILE = 4, MAPPING_ATTRIBUTES = 5 };
enum { STACK_LOCATIONS = 1 };
enum { LOCATION_MAPPING = 1, LOCATION_ADDRESS = 2, LOCATION_LINES = 3 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2, LINE_COLUMN = 3 };
enum { FUNCTION_NAME = 1, FUNCTION_SYSTEM_NAME = 2, FUNCTION_FILE = 3, FUNCTION_START_LINE = 4 };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE = 2, ATTRIBUTE_UNIT = 3 };
enum { LINK_TRACE = 1, LINK_SPAN = 2 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_STRING = 1, ANY_BOOL = 2, ANY_INT = 3, ANY_ARRAY = 5 };
enum { ARRAY_VALUES = 1 };

/* The tables of the dictionary, by field number. Entry 0 of each is the empty message. */
enum {
    DICTIONARY_MAPPINGS = 1,
    DICTIONARY_LOCATIONS = 2,
    DICTIONARY_FUNCTIONS = 3,
    DICTIONARY_LINKS = 4,
    DICTIONARY_STRINGS = 5,
    DICTIONARY_ATTRIBUTES = 6,
    DICTIONARY_STACKS = 7,
    DICTIONARY_N
};

#define OTLP_BUILD_ID    "process.executable.build_id.gnu"
#define OTLP_COMMENT     "pprof.profile.comment"
#define OTLP_DROP_FRAMES "pprof.profile.drop_frames"
#define OTLP_KEEP_FRAMES "pprof.profile.keep_frames"
#define OTLP_DOC_URL     "pprof.profile.doc_url"
#define OTLP_DEFAULT     "pprof.scope.default_sample_type"
#define OTLP_ORDER       "pprof.scope.sample_type_order"
#define OTLP_KIND        "deltaprof.kind"   /* of the scope: heap, mutex, block, events */
#define OTLP_TIMESTAMP   "end_timestamp_ns" /* pprof's label with the value of OTLP's Sample.timestamps_unix_nano */

#define OTLP_TRACE "trace_id" /* labels that are a Link in OTLP, if they are hex numbers of 16 and 8 bytes */
#define OTLP_SPAN  "span_id"

/* The flags of a mapping, in the order of struct dp_model_mapping. */
#define OTLP_MAPPING_FACTS                                                                              \
    {                                                                                                   \
        "pprof.mapping.has_functions", "pprof.mapping.has_filenames", "pprof.mapping.has_line_numbers", \
            "pprof.mapping.has_inline_frames"                                                           \
    }
