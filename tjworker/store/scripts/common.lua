-- Functions for every script. The text of the script follows; `K`, the table of keys from keys.py, precedes. ARGV[1] is
-- the key prefix.

-- Redis' own clock, in seconds: the one clock that all machines share.
local function now()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end

-- A whole number as text: Lua's own conversion writes 1e+15.
local function whole(number)
  return string.format('%.0f', number)
end

-- A value of Redis as a number; 0 if it is none, or too large for a whole number. A stranger may have written it, and a
-- script that failed on it would fail until the key is deleted.
local function number(text)
  local value = tonumber(text or 0)
  return value and math.abs(value) < 2 ^ 53 and value or 0
end

-- Increase a counter in a hash; a value that is no counter becomes 1.
local function count(hash, field)
  local value = redis.pcall('HINCRBY', hash, field, 1)
  if type(value) == 'number' and value > 0 then return value end
  redis.call('HSET', hash, field, 1)
  return 1
end

local function leased(key)
  return redis.call('EXISTS', K.lock .. key) == 1
end

-- Fencing token of the lease on a key; nil if no worker holds one.
local function holder(key)
  local lock = redis.call('GET', K.lock .. key)
  return lock and string.match(lock, '^(%d+)')
end

local function namespace_of(key)
  return string.match(key, '^[^/]*/([^/]*)/') or ''
end

-- Put a queued key into the line. True if it was not in line. Namespaces take turns, one key each: the rank of a key is
-- the turn that was served last, plus its position within its own namespace. The position is at most the length of the
-- line, in case a stranger has written `in_line`.
local function line_up(key)
  local namespace = namespace_of(key)
  local before = math.max(0, math.min(number(redis.call('HGET', K.in_line, namespace)), redis.call('ZCARD', K.line)))
  local turn = number(redis.call('GET', K.turn)) + before + 1
  if redis.call('ZADD', K.line, 'NX', turn, key) == 0 then return false end
  redis.call('HSET', K.in_line, namespace, before + 1)
  return true
end

local function leave_line(key)
  if redis.call('ZREM', K.line, key) == 0 then return end
  local namespace = namespace_of(key)
  local left = number(redis.call('HGET', K.in_line, namespace)) - 1
  if left > 0 then
    redis.call('HSET', K.in_line, namespace, whole(left))
  else
    redis.call('HDEL', K.in_line, namespace)
  end
end

-- Put a queued key into the line that no worker holds and that is not in line: a watcher of an earlier version queued
-- it, which knows no line. Not a key in `running`: its holder may have died, and the resync must count that first.
local function line_up_left_out(key)
  if redis.call('ZSCORE', K.dirty, key) and not redis.call('ZSCORE', K.running, key) and not leased(key) then
    line_up(key)
  end
end

-- How many more tasks the keys in line need. A task serves up to KEYS_PER_TASK keys, whichever have their turn. Tasks
-- that a worker has fetched do not count: they may have started before the last keys joined the line.
local function tasks_missing()
  local waiting = redis.pcall('LLEN', K.broker)
  waiting = type(waiting) == 'number' and waiting or 0
  return math.max(0, math.ceil(redis.call('ZCARD', K.line) / KEYS_PER_TASK) - waiting)
end

-- Shorten a list of keys that have just joined the line (from `first` on) to those that the caller must publish: the
-- tasks that wait in the broker serve the others.
local function leave_to_publish(keys, first)
  local most = tasks_missing() * KEYS_PER_TASK
  for i = #keys, first + most, -1 do keys[i] = nil end
  return keys
end

-- Member of `news` if the job was edited while a worker held its key.
local EDITED = 'edited'

-- Count the death of a key's holder, if it has died: its lease has lapsed, and it never finished. A single death may be
-- the fault of a machine, and the key is queued at once. After the second in a row the key waits, twice as long with
-- each further death. It does not wait if its job was edited: the pass that died had the old spec.
local function count_death(key, at)
  -- Read before the first write: a full Redis refuses a script only at its first write.
  if leased(key) or not redis.call('ZSCORE', K.running, key) then return end
  redis.call('ZREM', K.running, key)
  local deaths = count(K.deaths, key)
  if deaths < 2 or redis.call('SISMEMBER', K.news .. key, EDITED) == 1 then return end
  local seconds = math.min(DEATH_RETRY_MOST_SECONDS, DEATH_RETRY_SECONDS * 2 ^ math.min(deaths - 2, 40))
  redis.call('ZADD', K.delayed, at + seconds, key)
  redis.call('ZREM', K.dirty, key)
  leave_line(key)
end

-- True if the key waits after deaths of its holders. News does not end this wait, as it ends the wait after a failure:
-- a pass that dies takes a process with it. A stranger has written a wait that is longer than any after deaths.
local function held(key, at)
  if number(redis.call('HGET', K.deaths, key)) < 2 then return false end
  local due = number(redis.call('ZSCORE', K.delayed, key))
  return due > at and due <= at + DEATH_RETRY_MOST_SECONDS
end

-- Queue a key. True if it has joined the line. A key that a worker holds joins it at `finish`. `edited`: its job has a
-- new spec, which may cure what its passes died of.
local function enqueue(key, at, edited)
  -- Queued already while it was leased: `finish` puts it into the line, or the resync if its holder has died.
  if redis.call('ZSCORE', K.dirty, key) then return false end
  count_death(key, at)
  if not edited and held(key, at) then return false end
  redis.call('ZADD', K.dirty, 'NX', at, key)
  return not leased(key) and line_up(key)
end

-- A pass has ended after its lease lapsed: its process was slow, or Redis was away. Take back the death that was
-- counted for it, or would be, and queue the key, because the end of the pass is not used. A repetition changes
-- nothing.
local function take_back_death(key, at)
  local free = not leased(key)
  local uncounted = free and redis.call('ZREM', K.running, key) == 1
  if not uncounted then
    local deaths = number(redis.call('HGET', K.deaths, key))
    if deaths <= 0 then return end
    if deaths > 1 then
      redis.call('HSET', K.deaths, key, whole(deaths - 1))
    else
      redis.call('HDEL', K.deaths, key)
    end
  end
  if free then
    enqueue(key, at)
    line_up_left_out(key)
  end
end

-- Write fields of a hash: triples (name, 'put' or 'del', record) from ARGV[first] on.
local function put_each(hash, first)
  for i = first, #ARGV, 3 do
    if ARGV[i + 1] == 'put' then
      redis.call('HSET', hash, ARGV[i], ARGV[i + 2])
    else
      redis.call('HDEL', hash, ARGV[i])
    end
  end
end

-- Newest resourceVersion of a resource that the watch has shown for this job; 0 if it has shown none.
local function seen(key, resource)
  local plural, namespace = string.match(key, '^([^/]*)/([^/]*)')
  local newest = number(redis.call('HGET', K.seen .. key, resource))
  local progress = redis.call('HMGET', K.progress, resource, resource .. '/' .. (namespace or ''))
  newest = math.max(newest, number(progress[1]), number(progress[2]))
  if resource == plural then
    local job = redis.call('HGET', K.job .. key, 'job')
    newest = math.max(newest, number(job and string.match(job, '^(%d+)')))
  end
  return newest
end

-- Raise the minimum observed resourceVersion to own writes: pairs (resource, resourceVersion) from ARGV[first] on.
local function raise_min_observed(key, first)
  local versions = K.min_observed .. key
  for i = first, #ARGV, 2 do
    if tonumber(ARGV[i + 1]) > number(redis.call('HGET', versions, ARGV[i])) then
      redis.call('HSET', versions, ARGV[i], ARGV[i + 1])
    end
  end
  if #ARGV >= first then redis.call('EXPIRE', versions, FACT_TTL_SECONDS) end
end

-- True if the watch has shown the operator's last write of each resource. `behind`, if given, is called with each
-- (resource, resourceVersion) that it has not shown.
local function has_caught_up(key, behind)
  local versions, caught_up = redis.call('HGETALL', K.min_observed .. key), true
  for i = 1, #versions, 2 do
    if number(versions[i + 1]) > seen(key, versions[i]) then
      if behind then behind(versions[i], versions[i + 1]) end
      caught_up = false
    end
  end
  return caught_up
end

-- Make the events of own writes (pairs as for `raise_min_observed`) echoes: an event that has come already is removed
-- from the news, one that is still to come will queue nothing.
local function expect_echoes(key, first)
  for i = first, #ARGV, 2 do
    local version = ARGV[i] .. ':' .. ARGV[i + 1]
    if redis.call('SREM', K.news .. key, version) == 0 and tonumber(ARGV[i + 1]) > seen(key, ARGV[i]) then
      redis.call('SADD', K.echo .. key, version)
      redis.call('EXPIRE', K.echo .. key, FACT_TTL_SECONDS)
    end
  end
end

-- Nil if this writer may write, else the error to return. `remembers`: the last seq that it received.
local function refuse_writer(token, remembers)
  local writer = redis.call('HMGET', K.writer, 'token', 'seq')
  if not writer[1] then return redis.error_reply('LOST the projection has vanished') end
  local leads = number(writer[1])
  if leads > tonumber(token) then
    return redis.error_reply('FENCED writer ' .. token .. ' by writer ' .. writer[1])
  end
  if leads < tonumber(token) or number(writer[2]) < tonumber(remembers) then
    -- 0 comes from `distrust`: no writer starts at 0.
    local asked = leads == tonumber(token) and writer[2] == '0'
    return redis.error_reply(
      asked and 'LOST a worker could not open a record and asks for a new list' or 'LOST Redis came back with an older state'
    )
  end
  return nil
end
