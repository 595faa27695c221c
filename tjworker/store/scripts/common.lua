-- Functions for every script, which follows this text; `K`, the table of keys made from keys.py, precedes it. ARGV[1]
-- is the key prefix.

-- Redis' own clock, in seconds: the one clock that all machines share.
local function now()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end

-- A whole number as text: Lua's own conversion writes 1e+15.
local function whole(number)
  return string.format('%.0f', number)
end

-- What stands in Redis as a number; 0 where it is none, or lies beyond all whole numbers. Somebody else may have written
-- it, and a script that fails on it would fail until the key is deleted.
local function number(text)
  local value = tonumber(text or 0)
  return value and math.abs(value) < 2 ^ 53 and value or 0
end

-- Count up a field of a hash; what is no count begins anew.
local function count(hash, field)
  local value = redis.pcall('HINCRBY', hash, field, 1)
  if type(value) == 'number' and value > 0 then return value end
  redis.call('HSET', hash, field, 1)
  return 1
end

local function leased(key)
  return redis.call('EXISTS', K.lock .. key) == 1
end

-- Fencing token of the lease on a key; nil when no worker has one.
local function holder(key)
  local lock = redis.call('GET', K.lock .. key)
  return lock and string.match(lock, '^(%d+)')
end

local function namespace_of(key)
  return string.match(key, '^[^/]*/([^/]*)/') or ''
end

-- Give a queued key its turn. Namespaces take turns: of each, one key, then one of the next. So a key stands as many
-- places behind the turn that was served last as its namespace has keys in line, itself included; never more than there
-- are keys in line, whatever somebody has written there. True when it stood nowhere yet.
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

-- Give a queued key its turn that stands nowhere though nobody has it: a watcher of an earlier version queued it, which
-- knows no line. With an entry in `running` its holder may have died, and the resync counts that first.
local function line_up_left_out(key)
  if redis.call('ZSCORE', K.dirty, key) and not redis.call('ZSCORE', K.running, key) and not leased(key) then
    line_up(key)
  end
end

-- How many tasks are missing for the keys in line, beside those that wait in the broker. Each serves up to KEYS_PER_TASK
-- keys, whichever have their turn. Only those that nobody has fetched count: they see what has joined the line before.
local function tasks_missing()
  local waiting = redis.pcall('LLEN', K.broker)
  waiting = type(waiting) == 'number' and waiting or 0
  return math.max(0, math.ceil(redis.call('ZCARD', K.line) / KEYS_PER_TASK) - waiting)
end

-- Of a list of keys that have just joined the line, from `first` on, leave those that the caller publishes: tasks that
-- wait in the broker serve the others, too.
local function leave_to_publish(keys, first)
  local most = tasks_missing() * KEYS_PER_TASK
  for i = #keys, first + most, -1 do keys[i] = nil end
  return keys
end

-- Stands in `news` when the job was edited while a holder had it.
local EDITED = 'edited'

-- Count the death of a key's holder, if it has died: its lease is over, and it never finished. Once may be the fault of
-- a machine: the key goes on at once. From the second in a row on the key waits, twice as long with each, but not when
-- its job was edited meanwhile: what died was a pass over the old one.
local function count_death(key, at)
  -- Read first: once a script has written, a Redis that is full no longer refuses it.
  if leased(key) or not redis.call('ZSCORE', K.running, key) then return end
  redis.call('ZREM', K.running, key)
  local deaths = count(K.deaths, key)
  if deaths < 2 or redis.call('SISMEMBER', K.news .. key, EDITED) == 1 then return end
  local seconds = math.min(DEATH_RETRY_MOST_SECONDS, DEATH_RETRY_SECONDS * 2 ^ math.min(deaths - 2, 40))
  redis.call('ZADD', K.delayed, at + seconds, key)
  redis.call('ZREM', K.dirty, key)
  leave_line(key)
end

-- Does the key wait after deaths of its holders? A pass that dies takes a process with it, so news does not end this
-- wait, as it ends that after a failure. A longer wait than there is after deaths is none of ours.
local function held(key, at)
  if number(redis.call('HGET', K.deaths, key)) < 2 then return false end
  local due = number(redis.call('ZSCORE', K.delayed, key))
  return due > at and due <= at + DEATH_RETRY_MOST_SECONDS
end

-- Queue a key. True when the caller must publish a task: it was not in line, and no worker runs it (else `finish` will).
-- `edited`: its job has a new spec, which may be the cure.
local function enqueue(key, at, edited)
  -- Queued while it was leased: `finish` or, where its holder has died, the resync gives it its turn.
  if redis.call('ZSCORE', K.dirty, key) then return false end
  count_death(key, at)
  if not edited and held(key, at) then return false end
  redis.call('ZADD', K.dirty, 'NX', at, key)
  return not leased(key) and line_up(key)
end

-- A pass ends whose lease is over: its process was slow, or Redis was away so long. Take back the death that was counted
-- for it, or that would be, and queue the key, since nobody has used what the pass says. Sent again, it changes nothing.
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

-- Newest resourceVersion of a resource that the watch has shown for this job; 0 when it has shown none.
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

-- Has the watch shown all own writes of which the minimum is kept? `behind` gets each (resource, resourceVersion) that
-- it has not.
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

-- The same pairs as of `raise_min_observed`: an event that has come already is no news; one that is still to come will be an echo.
local function expect_echoes(key, first)
  for i = first, #ARGV, 2 do
    local version = ARGV[i] .. ':' .. ARGV[i + 1]
    if redis.call('SREM', K.news .. key, version) == 0 and tonumber(ARGV[i + 1]) > seen(key, ARGV[i]) then
      redis.call('SADD', K.echo .. key, version)
      redis.call('EXPIRE', K.echo .. key, FACT_TTL_SECONDS)
    end
  end
end

-- Nil when this writer may write, else the error to return. `remembers`: the last seq that it was told.
local function refuse_writer(token, remembers)
  local writer = redis.call('HMGET', K.writer, 'token', 'seq')
  if not writer[1] then return redis.error_reply('LOST the projection has vanished') end
  local leads = number(writer[1])
  if leads > tonumber(token) then
    return redis.error_reply('FENCED writer ' .. token .. ' by writer ' .. writer[1])
  end
  if leads < tonumber(token) or number(writer[2]) < tonumber(remembers) then
    -- `distrust` sets 0, which no writer counts from.
    local asked = leads == tonumber(token) and writer[2] == '0'
    return redis.error_reply(
      asked and 'LOST a worker could not open a record and asks for a new list' or 'LOST Redis came back with an older state'
    )
  end
  return nil
end
