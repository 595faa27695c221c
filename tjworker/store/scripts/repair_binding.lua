-- Have one of kombu's bindings be what a worker writes when it connects, and nothing else.
--
-- ARGV  1 prefix   2 its key   3 its one member
-- Keys  none   besides that
-- Gives 1 when it was another.
if redis.call('TYPE', ARGV[2]).ok == 'set' and redis.call('SISMEMBER', ARGV[2], ARGV[3]) == 1
  and redis.call('SCARD', ARGV[2]) == 1 then
  return 0
end
local was_there = redis.call('DEL', ARGV[2])
redis.call('SADD', ARGV[2], ARGV[3])
return was_there
