-- Find the keys that nobody is working on though somebody should.
--
-- ARGV  1 prefix   2 seconds after which a queued key's task counts as lost   3 '1': queue every unfinished job
-- Keys  dirty, running, unfinished, lock, broker
-- Gives the keys to publish, each once.
local at = now()
local publish, taken = {}, {}

local function give(key)
  if not taken[key] then
    taken[key] = true
    publish[#publish + 1] = key
  end
end

-- Their holder died: its lease is over and it never finished.
for _, key in ipairs(redis.call('ZRANGEBYSCORE', K.running, '-inf', at)) do
  if not held(key) then
    redis.call('ZREM', K.running, key)
    redis.call('ZADD', K.dirty, at, key)
    give(key)
  end
end

-- Their task was lost. Not looked for while there is a task for each: then they only wait for their turn, and more tasks
-- would only make the queue longer. Keys: but for those that run, which need no task until they finish. As many as lack a
-- task are given one, the oldest first: tasks are taken in order, so theirs should have come. The few that a worker has
-- fetched and not begun are in no list and lack one, too: a second task finds nothing to do.
local lost = redis.call('ZCARD', K.dirty) - #publish - redis.call('LLEN', K.broker)
for _, key in ipairs(redis.call('ZRANGE', K.running, 0, -1)) do
  if redis.call('ZSCORE', K.dirty, key) then lost = lost - 1 end
end
if lost > 0 then
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', K.dirty, '-inf', at - tonumber(ARGV[2]))) do
    if lost <= 0 then break end
    if not held(key) then
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
