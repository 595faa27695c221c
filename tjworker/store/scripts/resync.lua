-- Find keys that should be worked on and are not.
--
-- ARGV  1 prefix   2 seconds after which the task of a queued key counts as lost   3 '1': queue every unfinished job
-- Keys  dirty, line, in_line, turn, running, deaths, delayed, unfinished, lock, broker
-- Gives the keys to publish, each once.
local at = now()
local publish, taken = {}, {}

local function give(key)
  if not taken[key] then
    taken[key] = true
    publish[#publish + 1] = key
  end
end

-- Their worker died: the lease is over, and it never finished.
for _, key in ipairs(redis.call('ZRANGEBYSCORE', K.running, '-inf', at)) do
  if not leased(key) then
    count_death(key, at)
    if redis.call('ZSCORE', K.dirty, key) then
      if line_up(key) then give(key) end
    elseif enqueue(key, at) then
      give(key)
    end
  end
end

-- Their task was lost. A queued key needs one task in the broker, a running one none until it finishes. So as many
-- tasks are lost as there are fewer tasks than queued keys that do not run; while none is, the keys only wait for their
-- turn, and more tasks would make the queue longer. Any task serves the key whose
-- turn it is, so it does not matter for which keys: the missing ones are published for the oldest. A task that a worker has fetched and not begun is in no list and counts as lost;
-- the second one finds nothing to do.
local lost = redis.call('ZCARD', K.dirty) - #publish - redis.call('LLEN', K.broker)
for _, key in ipairs(redis.call('ZRANGE', K.running, 0, -1)) do
  if redis.call('ZSCORE', K.dirty, key) then lost = lost - 1 end
end
if lost > 0 then
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', K.dirty, '-inf', at - tonumber(ARGV[2]))) do
    if lost <= 0 then break end
    if not leased(key) and not taken[key] then
      line_up(key) -- an earlier version queued it, which knows no line
      give(key)
      lost = lost - 1
    end
  end
end

if ARGV[3] == '1' then
  local jobs = redis.call('SMEMBERS', K.unfinished)
  table.sort(jobs)
  for _, key in ipairs(jobs) do
    if enqueue(key, at) then give(key) end
  end
end
return publish
