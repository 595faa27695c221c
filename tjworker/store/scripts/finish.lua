-- Release a key.
--
-- ARGV  1 prefix   2 key   3 fencing token
--       4 when the next pass begins: 'on news', 'at once', 'with backoff' (the pass failed), 'on own write' (when the
--         watch has shown the operator's own writes)   5 seconds after which it begins at the latest, '' for no limit
--       6 first backoff, in seconds   7 longest backoff, in seconds
--       8 number n of deletions that left nothing, then n pairs: resource, resourceVersion (their events are news)
--       then pairs: resource, resourceVersion of the pass's own writes
-- Keys  lock, running, dirty, line, delayed, failures, deaths, min_observed, echo, news, seen, progress, job, broker
-- Gives {1 when the caller publishes a task, wait after a failure as text or '', failures in a row}.
--
local key, next_pass, latest_seconds = ARGV[2], ARGV[4], ARGV[5]
-- Raise the minimum even if the lease has lapsed: the writes have happened.
raise_min_observed(key, 9)
if holder(key) ~= ARGV[3] then
  -- The pass outlived its lease and releases nothing. But it has not died.
  take_back_death(key, now())
  -- The call may be a repetition whose first answer, which said to publish, was lost.
  return { redis.call('ZSCORE', K.line, key) and math.min(1, tasks_missing()) or 0, '', 0 }
end
expect_echoes(key, 9 + 2 * tonumber(ARGV[8]))
local at = now()
redis.call('DEL', K.lock .. key)
redis.call('ZREM', K.running, key)
redis.call('HDEL', K.deaths, key)

-- True when the watch has shown every own write by now. If not, the event of each missing write becomes news, once: it
-- queues the key although it is an echo.
local function has_shown_own_writes()
  return has_caught_up(key, function(resource, version) redis.call('SREM', K.echo .. key, resource .. ':' .. version) end)
end

local wait, failures = '', 0
if next_pass == 'with backoff' then
  failures = count(K.failures, key)
  -- The jitter is that of backoff.py: different for each key, the same on every run of a test.
  local spread = tonumber(string.sub(redis.sha1hex(key .. ':' .. failures), 1, 8), 16) / 4294967296
  local seconds = math.min(tonumber(ARGV[7]), tonumber(ARGV[6]) * 2 ^ math.min(failures - 1, 40)) * (0.8 + 0.4 * spread)
  redis.call('ZADD', K.delayed, 'LT', at + seconds, key)
  wait = string.format('%.6f', seconds)
else
  redis.call('HDEL', K.failures, key)
end
if latest_seconds ~= '' then redis.call('ZADD', K.delayed, 'LT', at + tonumber(latest_seconds), key) end

local again = next_pass == 'at once' or (next_pass == 'on own write' and has_shown_own_writes())
local changed = redis.call('DEL', K.news .. key) == 1
local marked = redis.call('ZSCORE', K.dirty, key)
if changed or marked or again then
  redis.call('ZADD', K.dirty, at, key)
  line_up(key)
  return { math.min(1, tasks_missing()), wait, failures }
end
return { 0, wait, failures }
