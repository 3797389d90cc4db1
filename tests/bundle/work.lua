-- SPDX-License-Identifier: MIT
-- Allocates in callbacks of a sort, in coroutines and in string functions; uses the processor for about half a second.
-- A longer list would be sorted by the clock as well, so the number of allocations would not be the same in each run.
local kept = {}
for round = 1, 900 do
    local words = {}
    for i = 1, 90 do
        words[i] = string.format("%d-%s", i * 7919 % 4000, string.rep("x", i % 40))
    end
    table.sort(words, function(a, b) return a .. "!" < b .. "!" end)
    kept[round % 5] = table.concat(words, ",")
end
local values = coroutine.wrap(function() for i = 1, 1000 do coroutine.yield(("%d"):rep(i % 50)) end end)
for _ = 1, 1000 do values() end
print(#kept[1])
