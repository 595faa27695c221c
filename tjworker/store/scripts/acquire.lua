-- Start to work on a queued key.
--
-- ARGV  1 prefix   2 key   3 owner   4 lease in milliseconds
-- Keys  dirty, running, delayed, lock, fence, news
-- Gives the fencing token as text; nil when the key is not queued (a doubled task) or another worker has leased it.
--
-- Ends a delay that an earlier pass asked for: this pass looks at everything and says anew when to look again. Forgets
-- news that came under an earlier lease: it is in the projection that this pass is about to read.
local key = ARGV[2]
if leased(key) or redis.call('ZREM', K.dirty, key) == 0 then return false end
local time = redis.call('TIME')
local token = math.max(tonumber(redis.call('GET', K.fence) or 0) + 1, time[1] * 1000000 + time[2])
redis.call('SET', K.fence, whole(token))
redis.call('SET', K.lock .. key, whole(token) .. ' ' .. ARGV[3], 'PX', ARGV[4])
redis.call('ZADD', K.running, now() + tonumber(ARGV[4]) / 1000, key)
redis.call('ZREM', K.delayed, key)
redis.call('DEL', K.news .. key)
return whole(token)
