-- SPDX-License-Identifier: MIT
-- Allocates known sizes under known Lua stacks, and prints a line for each: the bytes, then file:line of each function.
--
-- grow() makes a string of a size that is used once: n bytes for string.rep's buffer, which is freed, and n + 25 for the
-- string, which stays. It notes the stack of its caller as Lua tells it.
local deltaprof = require "deltaprof"
if arg[1] then assert(deltaprof.start(arg[1])) end

local kept, notes, parent, next_size = {}, {}, {}, 100000

local function lines(co, level, stack)
  local info = co and debug.getinfo(co, level, "Sl") or not co and debug.getinfo(level + 1, "Sl")
  while info do
    if info.what ~= "C" then stack[#stack + 1] = info.source:gsub("^[@=]", "") .. ":" .. info.currentline end
    level = level + 1
    info = co and debug.getinfo(co, level, "Sl") or not co and debug.getinfo(level + 1, "Sl")
  end
end

local function grow()
  next_size = next_size + 64
  kept[#kept + 1] = string.rep("x", next_size)
  local stack, co = {}, coroutine.running()
  lines(nil, 2, stack)
  while parent[co] do
    co = parent[co]
    lines(co, 0, stack)
  end
  notes[#notes + 1] = next_size .. " " .. table.concat(stack, " ")
  return next_size
end

local function start(f)
  local co = coroutine.create(f)
  parent[co] = coroutine.running()
  return co
end

local function step(co, ...)
  local ok, message = coroutine.resume(co, ...)
  assert(ok, message)
end

local function recursion(n)
  if n > 0 then recursion(n - 1) return end
  grow()
end

local function tail(n)
  if n > 0 then return tail(n - 1) end
  return grow()
end

local function generator(n)
  for i = 1, n do
    grow()
    coroutine.yield(i)
  end
end

local function protected()
  pcall(function()
    grow()
    coroutine.yield()
    grow() -- its loop is gone from the C stack: coroutine.resume called this function again
    error(setmetatable({}, {__tostring = function() grow() return "x" end}))
  end)
  grow()
end

local function metamethods()
  local t = setmetatable({}, {
    __index = function(t, k) grow() return k end,
    __lt = function(a, b) grow() return true end,
    __concat = function(a, b) grow() return "" end,
    __close = function() grow() end,
  })
  local x = t.name, t < t, t .. "x"
  do local closed <close> = t end
end

local function nested()
  local inner = start(function()
    local innermost = start(generator)
    step(innermost, 2)
    grow()
    step(innermost)
    coroutine.yield()
    grow()
  end)
  step(inner)
  step(inner)
end

local function many_lines()
  grow(); grow()
  return {
    grow(),
    (function() return grow() + 0 end)(),
  }, grow()
end

recursion(0)
recursion(30)
tail(5)
local co = start(generator)
for i = 1, 3 do step(co, 3) end
local co = start(protected)
step(co)
step(co)
metamethods()
nested()
many_lines()
table.sort({3, 1, 2}, function(a, b) grow() return a < b end)
string.gsub("ab", ".", function() grow() end)
for line in function(_, last) if not last then grow() return 1 end end do grow() end
xpcall(function() error("x") end, function() grow() end)
load("local grow = ...\n\ngrow()", "=made")(grow)
recursion(1000)
for i = 1, 300 do step(start(function() end)) end
collectgarbage()
grow()
print(table.concat(notes, "\n"))
if arg[2] then assert(deltaprof.write("heap", arg[2])) end
