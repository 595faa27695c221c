-- Keep the lease on a key.
--
-- ARGV  1 prefix   2 key   3 fencing token   4 lease in milliseconds
-- Keys  lock, running
-- Gives 1; error FENCED when the lease has lapsed.
local key = ARGV[2]
local token = holder(key)
if token ~= ARGV[3] then
  return redis.error_reply('FENCED ' .. key .. ' token ' .. ARGV[3] .. ', holder ' .. (token or 'nobody'))
end
redis.call('PEXPIRE', K.lock .. key, ARGV[4])
redis.call('ZADD', K.running, now() + tonumber(ARGV[4]) / 1000, key)
return 1
