-- Write changes of the projection in order, and queue the keys of jobs that have changed.
--
-- ARGV  1 prefix   2 writer's token   3 seq that the writer remembers
--       4 number n of progress pairs, then n pairs: resource (or resource/namespace), resourceVersion
--       then seven for each change: key, field ('job' or '<resource>/<name>'), resourceVersion,
--       'put' | 'end' (a job that has finished) | 'del', record, UID of the job ('' when not known), its generation
-- Keys  writer, job, known, unfinished, progress, seen, gone, dirty, running, delayed, failures, deaths, min_observed, echo, news, rests, line, in_line, turn, broker
-- Gives {new seq, keys to publish...}; errors FENCED, LOST.
-- With FREES_ONLY (the script `free`) it runs in a full Redis, and leaves out writes that make a value longer.
local refused = refuse_writer(ARGV[2], ARGV[3])
if refused then return refused end

local at = now()
local answer = { 0 }

-- Queue the key, unless the event is the echo of an own write. While the key is leased, the event is kept as news: only
-- `finish` knows the pass' own writes.
local function react(key, resource, rv, edited)
  local version = resource .. ':' .. rv
  if redis.call('SREM', K.echo .. key, version) == 1 then return end
  if edited and redis.call('ZSCORE', K.running, key) then redis.call('SADD', K.news .. key, EDITED) end
  if leased(key) then
    redis.call('SADD', K.news .. key, version)
  elseif enqueue(key, at, edited) then
    answer[#answer + 1] = key
  end
end

-- True if a change is newer than the stored value (which begins with its resourceVersion) or than the tombstone.
local function is_news(key, field, rv, value, stored)
  local known = -1
  if stored then
    known = number(string.match(stored, '^(%d+)'))
  else
    local buried = redis.call('HGET', K.gone .. key, field)
    if buried then known = number(buried) end
  end
  if value == nil then return rv > known or (stored and rv == known) end
  return rv > known or (rv == known and stored and stored ~= value)
end

local function bury(key, field, rv)
  redis.call('HSET', K.gone .. key, field, rv)
  redis.call('EXPIRE', K.gone .. key, FACT_TTL_SECONDS)
  redis.call('HDEL', K.job .. key, field)
end

local function forget_when_empty(key)
  if redis.call('EXISTS', K.job .. key) == 0 then
    redis.call('SREM', K.known, key)
    redis.call('DEL', K.seen .. key)
  end
end

-- True if the job has a new spec. Matters only after deaths of passes: a new spec may cure them, a new status does not.
local function is_edited(key, stored, generation)
  if redis.call('HEXISTS', K.deaths, key) == 0 then return false end
  return not stored or generation ~= string.match(stored, '^%d+ %d (%d+) ')
end

local function change_job(key, rv, op, record, uid, generation)
  local resource = string.match(key, '^[^/]*')
  local stored = redis.call('HGET', K.job .. key, 'job')
  if op == 'del' then
    if not is_news(key, 'job', tonumber(rv), nil, stored) then return end
    bury(key, 'job', rv)
    redis.call('SREM', K.unfinished, key)
    redis.call('ZREM', K.dirty, key)
    redis.call('ZREM', K.delayed, key)
    leave_line(key)
    redis.call('HDEL', K.failures, key)
    redis.call('HDEL', K.deaths, key)
    redis.call('DEL', K.min_observed .. key, K.echo .. key, K.news .. key, K.rests .. key)
    forget_when_empty(key)
    return
  end
  local value = table.concat({ rv, op == 'end' and 1 or 0, generation, uid, record }, ' ')
  if FREES_ONLY and (not stored or #value > #stored) then return end
  if not is_news(key, 'job', tonumber(rv), value, stored) then return end
  local edited = is_edited(key, stored, generation)
  if op == 'end' then
    redis.call('DEL', K.job .. key, K.seen .. key, K.gone .. key, K.rests .. key)
    redis.call('SREM', K.unfinished, key)
    redis.call('SREM', K.echo .. key, resource .. ':' .. rv)
  else
    redis.call('SADD', K.unfinished, key)
  end
  redis.call('HSET', K.job .. key, 'job', value)
  redis.call('SADD', K.known, key)
  if op == 'put' then react(key, resource, rv, edited) end
end

local function change_child(key, field, rv, op, record, job_uid)
  local resource = string.match(field, '^[^/]*')
  local job = redis.call('HGET', K.job .. key, 'job')
  local finished = job and string.match(job, '^%d+ (%d)') == '1'
  -- A child of another UID belongs to a job that was created again under this name, and that the watch will show.
  local another = job_uid ~= '' and op ~= 'del' and string.match(job or '', '^%d+ %d %d+ (%S*) ') ~= job_uid
  local stored = redis.call('HGET', K.job .. key, field)
  -- A stored child of a finished job is such a child. Its deletion does not say which job it belonged to.
  if finished and not another and not stored then return end
  local value = op ~= 'del' and rv .. ' ' .. record or nil
  if FREES_ONLY and value and (not stored or #value > #stored) then return end
  if not is_news(key, field, tonumber(rv), value, stored) then return end
  if op == 'del' then
    bury(key, field, rv)
    forget_when_empty(key)
  else
    redis.call('HSET', K.job .. key, field, value)
    redis.call('SADD', K.known, key)
  end
  if op == 'put' or job then
    if tonumber(rv) > number(redis.call('HGET', K.seen .. key, resource)) then
      redis.call('HSET', K.seen .. key, resource, rv)
    end
  end
  if job and not finished then react(key, resource, rv) end
end

local first = 5 + 2 * tonumber(ARGV[4])
for i = first, #ARGV, 7 do
  local key, field, rv, op, record, job_uid = unpack(ARGV, i, i + 5)
  if field == 'job' then
    change_job(key, rv, op, record, job_uid, ARGV[i + 6])
  else
    change_child(key, field, rv, op, record, job_uid)
  end
end
for i = 5, first - 1, 2 do
  if tonumber(ARGV[i + 1]) > number(redis.call('HGET', K.progress, ARGV[i])) then
    redis.call('HSET', K.progress, ARGV[i], ARGV[i + 1])
  end
end
answer[1] = count(K.writer, 'seq')
return leave_to_publish(answer, 2)
