-- Record own writes before the pass ends.
--
-- ARGV  1 prefix   2 key   3 fencing token
--       4 number n of deletions that left nothing, then n pairs: resource, resourceVersion
--       then pairs: resource, resourceVersion of own writes
-- Keys  lock, min_observed, echo, news, seen, progress, job
-- Gives 1; error FENCED if the lease has lapsed. `min_observed` rises even then: the writes have happened.
local key = ARGV[2]
raise_min_observed(key, 5)
local token = holder(key)
if token ~= ARGV[3] then
  return redis.error_reply('FENCED ' .. key .. ' token ' .. ARGV[3] .. ', holder ' .. (token or 'nobody'))
end
expect_echoes(key, 5 + 2 * tonumber(ARGV[4]))
return 1
