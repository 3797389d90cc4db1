/* SPDX-License-Identifier: MIT */
/* tool/push/say.h - lines for people, on standard error or in a file. A line that repeats the one before is left out.
 */
#pragma once

/* Where lines go: NULL is standard error; else a file that is opened for each line. The text must stay. */
void dp_push_say_to(const char *file);

/* One line, `deltaprof push: ...`. */
void dp_push_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Call it after a success: the next line is printed even if it equals the last one. */
void dp_push_say_well(void);
