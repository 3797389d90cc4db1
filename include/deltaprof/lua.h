/* SPDX-License-Identifier: MIT */
/*
 * lua.h - profiles a Lua 5.4 state: for a program that embeds Lua. Scripts write require "deltaprof" instead.
 *
 * It is compiled against the Lua of the machine; a program with a Lua of its own compiles runtime_hooks/lua with it.
 */
#pragma once

#include <deltaprof/deltaprof.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lua_State;

/*
 * From now on the state's allocator is the heap `lua`, and stacks carry its Lua functions until lua_close. Blocks that
 * the state allocated before are not known. Works before deltaprof_start and after it. A second call does nothing.
 * Returns 0; -ENOMEM; -ENOTSUP: the heap is seen, but the functions of this build of Lua cannot be named. Context: the
 * thread that uses the state, in ordinary code.
 */
DELTAPROF_API int deltaprof_lua_attach(struct lua_State *L);

/* The module: luaL_requiref(L, "deltaprof", luaopen_deltaprof, 0). Attaches the state. */
DELTAPROF_API int luaopen_deltaprof(struct lua_State *L);

#ifdef __cplusplus
}
#endif
