/* SPDX-License-Identifier: MIT */
/* push/say.h - lines for people, on standard error or in a file. A line that repeats the one before is left out. */
#pragma once

/* Where lines go: NULL is standard error; else a file that is opened for each line. The text must stay. */
void dp_push_say_to(const char *file);

/* One line, `deltaprof push: ...`. */
void dp_push_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* All is well again: the next line is said even if it is the same as the last. */
void dp_push_say_well(void);
