-- Release a key.
--
-- ARGV  1 prefix   2 key   3 fencing token
--       4 '1': queue it again at once; 'behind': as soon as the watch has shown the operator's own writes   5 seconds to queue it after, '' for no   6 '1': the pass failed
--       7 first wait after a failure, in seconds   8 longest wait, in seconds
--       9 number n of deletions that left nothing, then n pairs: resource, resourceVersion (their events are news)
--       then pairs: resource, resourceVersion of the pass's own writes
-- Keys  lock, running, dirty, line, delayed, failures, deaths, min_observed, echo, news, seen, progress, job, broker
-- Gives {1 when the caller publishes a task, wait after a failure as text or '', failures in a row}.
--
-- A pass that ends after its lease is over gives nothing back, but it has not died. Its writes have happened, so the
-- minimum observed resourceVersion rises all the same.
local key = ARGV[2]
raise_min_observed(key, 10)
if holder(key) ~= ARGV[3] then
  take_back_death(key, now())
  -- Maybe sent again: the answer that said to publish was lost.
  return { redis.call('ZSCORE', K.line, key) and math.min(1, tasks_missing()) or 0, '', 0 }
end
expect_echoes(key, 10 + 2 * tonumber(ARGV[9]))
local at = now()
redis.call('DEL', K.lock .. key)
redis.call('ZREM', K.running, key)
redis.call('HDEL', K.deaths, key)

-- The pass did nothing, as its view was behind an own write. True when the watch has shown them all by now; else the
-- event of the last one is news, once.
local function is_no_longer_behind()
  return has_caught_up(key, function(resource, version) redis.call('SREM', K.echo .. key, resource .. ':' .. version) end)
end

local wait, failures = '', 0
if ARGV[6] == '1' then
  failures = count(K.failures, key)
  -- The jitter is that of backoff.py: different for each key, the same on every run of a test.
  local spread = tonumber(string.sub(redis.sha1hex(key .. ':' .. failures), 1, 8), 16) / 4294967296
  local seconds = math.min(tonumber(ARGV[8]), tonumber(ARGV[7]) * 2 ^ math.min(failures - 1, 40)) * (0.8 + 0.4 * spread)
  redis.call('ZADD', K.delayed, 'LT', at + seconds, key)
  wait = string.format('%.6f', seconds)
else
  redis.call('HDEL', K.failures, key)
end
if ARGV[5] ~= '' then redis.call('ZADD', K.delayed, 'LT', at + tonumber(ARGV[5]), key) end

local again = ARGV[4] == '1' or (ARGV[4] == 'behind' and is_no_longer_behind())
local changed = redis.call('DEL', K.news .. key) == 1
local marked = redis.call('ZSCORE', K.dirty, key)
if changed or marked or again then
  redis.call('ZADD', K.dirty, at, key)
  line_up(key)
  return { math.min(1, tasks_missing()), wait, failures }
end
return { 0, wait, failures }
