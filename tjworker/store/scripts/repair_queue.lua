-- Repair numbers of the queue that the operator cannot have written and that would block a key for ever: a time in the
-- future where only the past is possible, a lease that is too long, a turn that is too high, counts that do not add up.
--
-- ARGV  1 prefix   2 longest lease in milliseconds
-- Keys  dirty, running, line, in_line, turn
-- Gives how many were repaired.
local at = now()
local repaired = 0

local function at_most(queue, most, instead)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', queue, '(' .. string.format('%.6f', most), '+inf')) do
    redis.call('ZADD', queue, 'XX', string.format('%.6f', instead), key)
    repaired = repaired + 1
  end
end

-- With a second of tolerance: a Redis that took over from another one may have another clock.
local lease_ends = at + tonumber(ARGV[2]) / 1000
at_most(K.dirty, at + 1, at)
at_most(K.running, lease_ends + 1, lease_ends)
-- Such turns also remain after jobs that were deleted while they were in line.
local turn = number(redis.call('GET', K.turn))
at_most(K.line, turn + redis.call('ZCARD', K.line) + 1, turn + 1)

local counted = 0
for _, keys in ipairs(redis.call('HVALS', K.in_line)) do counted = counted + number(keys) end
if counted ~= redis.call('ZCARD', K.line) then
  local waiting = {}
  for _, key in ipairs(redis.call('ZRANGE', K.line, 0, -1)) do
    local namespace = namespace_of(key)
    waiting[namespace] = (waiting[namespace] or 0) + 1
  end
  redis.call('DEL', K.in_line)
  for namespace, keys in pairs(waiting) do redis.call('HSET', K.in_line, namespace, keys) end
  repaired = repaired + 1
end
return repaired
