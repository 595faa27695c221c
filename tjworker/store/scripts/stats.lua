-- How many keys the queue has, in which state.
--
-- ARGV  1 prefix
-- Keys  dirty, delayed, running, unfinished, failures
-- Gives {queued, delayed, running, age of the oldest queued key in seconds as text, unfinished, failing}.
local at = now()
local oldest = redis.call('ZRANGE', K.dirty, 0, 0, 'WITHSCORES')
local age = oldest[2] and math.max(0, at - tonumber(oldest[2])) or 0
return {
  redis.call('ZCARD', K.dirty), redis.call('ZCARD', K.delayed), redis.call('ZCOUNT', K.running, at, '+inf'),
  string.format('%.6f', age), redis.call('SCARD', K.unfinished), redis.call('HLEN', K.failures),
}
