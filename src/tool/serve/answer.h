/* SPDX-License-Identifier: MIT */
/* tool/serve/answer.h - the replies of the endpoint, as the http module asks for them. Context: its thread. */
#pragma once

#include "endpoint/server.h"

extern const struct dp_http_server_calls dp_serve_answer_calls;
