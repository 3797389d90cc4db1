/* SPDX-License-Identifier: MIT */
/*
 * view/page.h - the page that shows profiles: HTML, in two parts. The page's data come between them, one element
 * `<script type="application/octet-stream">` with the base64 of a gzipped pack (tool/pack/pack.h); the live page has
 * none.
 */
#pragma once

#include <stddef.h>

extern const unsigned char dp_view_page_before[], dp_view_page_after[];
extern const size_t dp_view_page_before_bytes, dp_view_page_after_bytes;
extern const char dp_view_page_policy[]; /* the header Content-Security-Policy */
