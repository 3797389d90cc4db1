/* SPDX-License-Identifier: MIT */
/*
 * profile/comments.h - the comments of a profile that programs read. They begin with #, so pprof does not show them.
 *
 *     #deltaprof 0.1.0                 the version that wrote the profile
 *     #ended                           the process ends with this profile
 *     #killed                          it was killed: another process found this in its tables
 *     #tables                          another process made it from the tables: it tells no #stuck and no #Rss
 *     #exit                            the process begins to end: none of its handlers has run; with #ended: a signal
 *                                      ended it, and none will run
 *     #peak                            more is in use than in any earlier profile of the process
 *     #PeakAt=1700000000000000000      what is in use is that of this earlier moment, ns of Unix time: of a peak
 *     #stuck 12345 deadlock of 2 threads: ...   a wait under way, milliseconds after its begin (host/locks/alarm.h)
 *     #in-use-at 1764000000000000000, the peak of 2 processes   of a merged profile: the time of its in-use values
 *     #allocated 12345                 bytes that the process allocated since its start: counted, not sampled
 *     #RssTotal=12345, #RssAnon=12345  resident bytes of the process
 *     #RssPart stacks of threads=12345 a part of the anonymous resident bytes
 *     #Free malloc_trim=12345          free memory that the C heap's allocator holds, with types=waste
 *     #ZerosUnknown=12345              bytes in use that were not read for zeros
 *     #Idle untouched=12345            memory that was not used in the window, with types=idle
 *     #IdleUnknown                     that cannot be told
 *     #WasteUnknown it may not ...     why a profile does not have the types of types=waste
 *     #RssError=, #RssAbsent=, #InuseRounding=   host/resident/resident.h
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How each comment begins. */
#define DP_COMMENT_VERSION        "#deltaprof "
#define DP_COMMENT_ENDED          "#ended"
#define DP_COMMENT_KILLED         "#killed"
#define DP_COMMENT_TABLES         "#tables"
#define DP_COMMENT_EXIT           "#exit"
#define DP_COMMENT_PEAK           "#peak"
#define DP_COMMENT_STUCK          "#stuck "
#define DP_COMMENT_PEAK_AT        "#PeakAt="
#define DP_COMMENT_IN_USE_AT      "#in-use-at "
#define DP_COMMENT_ALLOCATED      "#allocated "
#define DP_COMMENT_RSS_TOTAL      "#RssTotal="
#define DP_COMMENT_RSS_ANON       "#RssAnon="
#define DP_COMMENT_RSS_ERROR      "#RssError="
#define DP_COMMENT_RSS_ABSENT     "#RssAbsent="
#define DP_COMMENT_RSS_PART       "#RssPart "
#define DP_COMMENT_INUSE_ROUNDING "#InuseRounding="
#define DP_COMMENT_FREE           "#Free "
#define DP_COMMENT_ZEROS_UNKNOWN  "#ZerosUnknown="
#define DP_COMMENT_WASTE_UNKNOWN  "#WasteUnknown "
#define DP_COMMENT_IDLE           "#Idle "
#define DP_COMMENT_IDLE_UNKNOWN   "#IdleUnknown"

/* Behind DP_COMMENT_IDLE: host/resident/idle.h. */
#define DP_IDLE_MS        "ms"
#define DP_IDLE_RESIDENT  "resident"
#define DP_IDLE_UNTOUCHED "untouched"

/* What the C heap's allocator holds free, behind DP_COMMENT_FREE: host/resident/free_chunks.h. */
#define DP_FREE_TRIM    "malloc_trim"
#define DP_FREE_PINNED  "pinned"
#define DP_FREE_ARENAS  "in arenas of threads"
#define DP_FREE_N       "arenas"
#define DP_FREE_HEAPS   "heaps"
#define DP_FREE_UNKNOWN "unknown"
#define DP_FREE_TOP     "ends of arenas"
#define DP_FREE_CACHED  "caches of threads"
/* These only if it is jemalloc: pinned is then what is free in slabs. 1 or 0, but for the bytes. */
#define DP_FREE_JEMALLOC   "jemalloc"
#define DP_FREE_DECAY      "jemalloc's decay"
#define DP_FREE_BACKGROUND "jemalloc's background threads"
#define DP_FREE_NEVER      "jemalloc without decay"

/* Names of the parts of resident memory, behind DP_COMMENT_RSS_PART. A heap of the program: "heap NAME" and OF_HEAP. */
#define DP_RSS_IN_USE        "malloc, in use"
#define DP_RSS_OF_HEAP       ", in use"
#define DP_RSS_ROUNDING      "malloc, rounding by size class"
#define DP_RSS_HELD          "malloc, held but not in use"
#define DP_RSS_HELD_OR_OLDER "malloc, held, or in use since before the profiler was on"
#define DP_RSS_MALLOC        "malloc (brk and arenas)" /* of a process without a profile */
#define DP_RSS_MAPPED        "mmap"
#define DP_RSS_STACKS        "stacks of threads"
#define DP_RSS_FILES         "private pages of files"
#define DP_RSS_SELF          "the profiler"

/* Makes `begin`, `middle` and the number one text. Returns its length. No stdio: for crash handlers, too. */
size_t dp_profile_comment_format(char *text, size_t n_bytes, const char *begin, const char *middle, int64_t number);

/* The number behind `begin`, which is all of the comment. False: another comment, or no such number. */
bool dp_profile_comment_number(const char *text, size_t n_bytes, const char *begin, int64_t *number);

/* The name of a part in a comment that begins with `begin`, and its bytes. False: another comment. */
bool dp_profile_comment_part(const char *text, size_t n_bytes, const char *begin, const char **name, size_t *n_name,
                             int64_t *part_bytes);
