-- Become the writer of the projection.
--
-- ARGV  1 prefix
--       2 token of the new writer; one that has led before may lead again
-- Keys  writer
-- Gives the number of writes so far; error FENCED when a newer writer has been here.
local token = redis.call('HGET', K.writer, 'token')
if token and tonumber(token) > tonumber(ARGV[2]) then
  return redis.error_reply('FENCED writer ' .. ARGV[2] .. ' by writer ' .. token)
end
redis.call('HSET', K.writer, 'token', ARGV[2])
redis.call('HSETNX', K.writer, 'seq', 0)
return tonumber(redis.call('HGET', K.writer, 'seq'))
