/* SPDX-License-Identifier: MIT */
/*
 * lua.h - profiles a Lua 5.4 state, for a program that embeds Lua. Scripts use require "deltaprof" instead.
 *
 * The library is compiled against the machine's Lua. A program that contains another Lua must compile runtime_hooks/lua
 * with that one.
 */
#pragma once

#include <deltaprof/deltaprof.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lua_State;

/*
 * Records the memory of the state as the heap `lua`, and adds its Lua functions to stacks, until lua_close. Blocks that
 * the state allocated before are not seen. Works before deltaprof_start and after it. A second call does nothing.
 * Returns 0; -ENOMEM; -ENOTSUP: the heap is seen, but the functions of this build of Lua cannot be named. Context: the
 * thread that uses the state, in ordinary code.
 */
DELTAPROF_API int deltaprof_lua_attach(struct lua_State *L);

/* The module: luaL_requiref(L, "deltaprof", luaopen_deltaprof, 0). Attaches the state. */
DELTAPROF_API int luaopen_deltaprof(struct lua_State *L);

#ifdef __cplusplus
}
#endif
