-- Find keys that are due but that no task and no worker will serve.
--
-- ARGV  1 prefix   2 seconds after which the task of a queued key counts as lost   3 '1': queue every unfinished job
-- Keys  dirty, line, in_line, turn, running, deaths, delayed, news, unfinished, job, lock, missing, broker
-- Gives the keys to publish, each once.
local at = now()
local publish, taken = {}, {}

local function give(key)
  if not taken[key] then
    taken[key] = true
    publish[#publish + 1] = key
  end
end

-- Keys whose worker died: the lease has lapsed, and it never finished.
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

-- Keys whose task was lost. Any task in the broker serves the keys whose turn it is. A missing task may still be on its
-- way: a worker has fetched it and not begun, or it has not been sent yet. A task counts as lost if its key has waited
-- too long, or if it was missing at two resyncs in a row. The second rule matters under a steady flow of tasks, where
-- each key is served soon by the task of a later key. While no task is missing, the keys only wait for their turn, and
-- more tasks would make the queue longer. A task too many finds nothing to do.
local waited = 0
for _, key in ipairs(redis.call('ZRANGEBYSCORE', K.dirty, '-inf', at - tonumber(ARGV[2]))) do
  line_up_left_out(key)
  if not taken[key] and redis.call('ZSCORE', K.line, key) then waited = waited + 1 end
end
local missing = math.max(0, tasks_missing() - math.ceil(#publish / KEYS_PER_TASK))
local before = number(redis.call('GET', K.missing))
local lost = math.min(missing, math.max(math.ceil(waited / KEYS_PER_TASK), before))
if missing > lost then
  redis.call('SET', K.missing, missing - lost)
elseif before > 0 then
  redis.call('DEL', K.missing)
end
local left = lost * KEYS_PER_TASK
if left > 0 then
  for _, key in ipairs(redis.call('ZRANGE', K.line, 0, left + #publish - 1)) do
    if left <= 0 then break end
    if not taken[key] then
      give(key)
      left = left - 1
    end
  end
end

if ARGV[3] == '1' then
  local jobs = redis.call('SMEMBERS', K.unfinished)
  table.sort(jobs)
  for _, key in ipairs(jobs) do
    if redis.call('HEXISTS', K.job .. key, 'job') == 0 then
      redis.call('SREM', K.unfinished, key) -- a stranger wrote it: the watcher writes both at once
    elseif enqueue(key, at) then
      give(key)
    end
  end
end
return publish
