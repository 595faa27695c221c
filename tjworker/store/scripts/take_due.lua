-- Queue the keys whose delay is over, the oldest first.
--
-- ARGV  1 prefix   2 how many at most
-- Keys  delayed, dirty, line, in_line, turn, running, deaths, lock, broker
-- Gives the keys to publish.
local at = now()
local publish = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', K.delayed, '-inf', at, 'LIMIT', 0, ARGV[2])) do
  redis.call('ZREM', K.delayed, key)
  if enqueue(key, at) then publish[#publish + 1] = key end
end
return leave_to_publish(publish, 1)
