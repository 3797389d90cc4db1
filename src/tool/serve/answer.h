/* SPDX-License-Identifier: MIT */
/* tool/serve/answer.h - the functions by which the http module makes replies. Context: the thread of its server. */
#pragma once

#include "endpoint/server.h"

extern const struct dp_http_server_calls dp_serve_answer_calls;
