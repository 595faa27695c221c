-- Become the writer of the projection.
--
-- ARGV  1 prefix
--       2 token of the new writer; one that has led before may lead again
--       3 the form of the records that it writes, '' when it does not matter
-- Keys  writer
-- Gives the `seq` that its writes count from; error FENCED when a newer writer has been here.
--
-- It is beyond that of every earlier state, so that also a backup from before a loss is seen to be older: on an empty Redis the
-- count would begin anew, and that of the backup be higher.
local token = redis.call('HGET', K.writer, 'token')
if token and tonumber(token) > tonumber(ARGV[2]) then
  return redis.error_reply('FENCED writer ' .. ARGV[2] .. ' by writer ' .. token)
end
-- From here on records of both forms are mixed, until one of them has listed everything.
if ARGV[3] ~= '' and redis.call('HGET', K.writer, 'form') ~= ARGV[3] then redis.call('HDEL', K.writer, 'form') end
local time = redis.call('TIME')
local seq = math.max(tonumber(redis.call('HGET', K.writer, 'seq') or 0) + 1, time[1] * 1000000 + time[2])
redis.call('HSET', K.writer, 'token', ARGV[2], 'seq', whole(seq))
return seq
