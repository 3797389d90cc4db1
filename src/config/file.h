/* SPDX-License-Identifier: MIT */
/*
 * config/file.h - opens a file that a key names. Such a file is read again, by the program that `run` becomes, by its
 * children, or when it has changed; so it must be a regular file. A pipe has its text only once, and may keep its
 * reader waiting.
 */
#pragma once

/* A descriptor to read, or a negative errno. -EISDIR, -ESPIPE: it is a directory, or no regular file. Never waits. */
int dp_config_file_open(const char *path);
