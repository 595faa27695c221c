-- Lease the keys whose turn it is.
--
-- ARGV  1 prefix   2 the key that the task names: of several whose turn it is, this one   3 owner
--       4 lease in milliseconds   5 how many keys at most
-- Keys  line, in_line, turn, dirty, running, delayed, lock, fence, news, deaths, job, seen, min_observed, progress, writer, broker
-- Gives {a key to publish or ''; the hash `progress`; `token`, `synced` and `children` of the writer; the time in Unix
-- seconds, as text; then for each key {fencing token as text, key, passes over it that died in a row, and the hashes
-- job, seen and min_observed}}; nil if no key is in line. An error takes the place of a hash of another type. A big job
-- has none of the three hashes: reading it here would block Redis.
--
-- A key whose last pass died is taken alone: if it kills its process again, no other pass dies with it. There is a key
-- to publish if keys were left in line and no task waits for them.
--
-- Removes the delays that earlier passes asked for, because these passes decide again when the next ones begin. Removes
-- news from an earlier lease, because it is in the projection that these passes will read.
if not redis.call('ZSCORE', K.line, ARGV[2]) then line_up_left_out(ARGV[2]) end

local function first_in_line()
  local first = redis.call('ZRANGE', K.line, 0, 0, 'WITHSCORES')
  if first[1] and redis.call('ZSCORE', K.line, ARGV[2]) == first[2] then return ARGV[2], first[2] end
  return first[1], first[2]
end

local function records_of(key)
  local fields = redis.pcall('HLEN', K.job .. key) -- a stranger may have written another type
  return type(fields) == 'number' and fields or 0
end

local function lease(key, deaths)
  local time = redis.call('TIME')
  local token = math.max(number(redis.call('GET', K.fence)) + 1, time[1] * 1000000 + time[2])
  redis.call('SET', K.fence, whole(token))
  redis.call('SET', K.lock .. key, whole(token) .. ' ' .. ARGV[3], 'PX', ARGV[4])
  redis.call('ZADD', K.running, now() + tonumber(ARGV[4]) / 1000, key)
  redis.call('ZREM', K.delayed, key)
  redis.call('DEL', K.news .. key)
  return { whole(token), key, deaths }
end

local answer, records = { '' }, 0
while #answer <= tonumber(ARGV[5]) do
  local key, turn = first_in_line()
  if not key then break end
  local deaths = number(redis.call('HGET', K.deaths, key))
  local more = records_of(key)
  if #answer > 1 and (deaths > 0 or records + more > RECORDS_PER_TASK) then break end
  leave_line(key)
  redis.call('SET', K.turn, turn)
  -- A worker of an earlier version, which knows no line, may hold the key already.
  if not leased(key) and redis.call('ZREM', K.dirty, key) == 1 then
    answer[#answer + 1] = lease(key, deaths)
    records = records + more
    if deaths > 0 then break end
  end
end
if #answer <= KEYS_PER_TASK and tasks_missing() > 0 then answer[1] = redis.call('ZRANGE', K.line, 0, 0)[1] end
if #answer == 1 then return false end
for i = 2, records <= RECORDS_PER_TASK and #answer or 1 do
  for _, hash in ipairs({ K.job, K.seen, K.min_observed }) do
    table.insert(answer[i], redis.pcall('HGETALL', hash .. answer[i][2]))
  end
end
table.insert(answer, 2, redis.pcall('HGETALL', K.progress))
table.insert(answer, 3, redis.pcall('HMGET', K.writer, 'token', 'synced', 'children'))
table.insert(answer, 4, string.format('%.6f', now()))
return answer
