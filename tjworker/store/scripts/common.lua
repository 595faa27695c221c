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

local function leased(key)
  return redis.call('EXISTS', K.lock .. key) == 1
end

-- Fencing token of the lease on a key; nil when no worker has one.
local function holder(key)
  local lock = redis.call('GET', K.lock .. key)
  return lock and string.match(lock, '^(%d+)')
end

-- Queue a key. True when the caller must publish a task: it was not queued, and no worker runs it (else `finish` will).
local function enqueue(key, at)
  return redis.call('ZADD', K.dirty, 'NX', at, key) == 1 and not leased(key)
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
  local newest = tonumber(redis.call('HGET', K.seen .. key, resource) or 0)
  local progress = redis.call('HMGET', K.progress, resource, resource .. '/' .. (namespace or ''))
  newest = math.max(newest, tonumber(progress[1] or 0), tonumber(progress[2] or 0))
  if resource == plural then
    local job = redis.call('HGET', K.job .. key, 'job')
    newest = math.max(newest, tonumber(job and string.match(job, '^(%d+)') or 0))
  end
  return newest
end

-- Raise the minimum observed resourceVersion to own writes: pairs (resource, resourceVersion) from ARGV[first] on.
local function raise_min_observed(key, first)
  local versions = K.min_observed .. key
  for i = first, #ARGV, 2 do
    if tonumber(ARGV[i + 1]) > tonumber(redis.call('HGET', versions, ARGV[i]) or 0) then
      redis.call('HSET', versions, ARGV[i], ARGV[i + 1])
    end
  end
  if #ARGV >= first then redis.call('EXPIRE', versions, FACT_TTL_SECONDS) end
end

-- The same pairs: an event that has come already is no news; one that is still to come will be an echo.
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
  if tonumber(writer[1]) > tonumber(token) then
    return redis.error_reply('FENCED writer ' .. token .. ' by writer ' .. writer[1])
  end
  if tonumber(writer[1]) < tonumber(token) or tonumber(writer[2]) < tonumber(remembers) then
    return redis.error_reply('LOST Redis came back with an older state')
  end
  return nil
end
