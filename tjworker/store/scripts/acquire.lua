-- Start to work on the key whose turn it is.
--
-- ARGV  1 prefix   2 the key that the task names: of several whose turn it is, this one   3 owner
--       4 lease in milliseconds
-- Keys  line, in_line, turn, dirty, running, delayed, lock, fence, news, deaths
-- Gives {fencing token as text, key, passes over it that died in a row}; nil when no key is in line.
--
-- Ends a delay that an earlier pass asked for: this pass looks at everything and says anew when to look again. Forgets
-- news that came under an earlier lease: it is in the projection that this pass is about to read.
if not redis.call('ZSCORE', K.line, ARGV[2]) then line_up_left_out(ARGV[2]) end
local key
repeat
  local first = redis.call('ZRANGE', K.line, 0, 0, 'WITHSCORES')
  if not first[1] then return false end
  key = first[1]
  if redis.call('ZSCORE', K.line, ARGV[2]) == first[2] then key = ARGV[2] end
  leave_line(key)
  redis.call('SET', K.turn, first[2])
  -- A worker of an earlier version knows no line: it may have taken the key already.
until not leased(key) and redis.call('ZREM', K.dirty, key) == 1
local time = redis.call('TIME')
local token = math.max(number(redis.call('GET', K.fence)) + 1, time[1] * 1000000 + time[2])
redis.call('SET', K.fence, whole(token))
redis.call('SET', K.lock .. key, whole(token) .. ' ' .. ARGV[3], 'PX', ARGV[4])
redis.call('ZADD', K.running, now() + tonumber(ARGV[4]) / 1000, key)
redis.call('ZREM', K.delayed, key)
redis.call('DEL', K.news .. key)
return { whole(token), key, number(redis.call('HGET', K.deaths, key)) }
