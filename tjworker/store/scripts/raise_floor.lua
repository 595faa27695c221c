-- Record own writes before the pass ends.
--
-- ARGV  1 prefix   2 key   3 fencing token   then pairs: resource, rv
-- Keys  lock, floor, echo, news, seen, progress, job
-- Gives 1; error FENCED when the lease has lapsed. The floor rises all the same: the writes have happened.
local key = ARGV[2]
raise(key, 4)
local token = holder(key)
if token ~= ARGV[3] then
  return redis.error_reply('FENCED ' .. key .. ' token ' .. ARGV[3] .. ', holder ' .. (token or 'nobody'))
end
expect_echoes(key, 4)
return 1
