-- Become the writer of the projection.
--
-- ARGV  1 prefix   2 token of the new writer; one that has led before may lead again
--       3 form of the records that it writes, '' when it does not matter   4 '1': whoever has been here
-- Keys  writer, known
-- Gives the `seq` that its writes count from; error FENCED when a newer writer has been here.
--
-- That `seq` is beyond those of all earlier states. So a backup from before a FLUSHALL is recognised as older: a count
-- that began anew would be below the backup's.
local token = redis.call('HGET', K.writer, 'token')
if number(token) > tonumber(ARGV[2]) and ARGV[4] ~= '1' then
  return redis.error_reply('FENCED writer ' .. ARGV[2] .. ' by writer ' .. token)
end
-- Records of both forms are mixed from here on, until a writer has listed everything. Those that the same key has sealed
-- can be read all the same: its name, which comes first, stays.
local form = redis.call('HGET', K.writer, 'form') or ''
if ARGV[3] ~= '' and form ~= ARGV[3] then
  local name = string.match(ARGV[3], '^[^:]*:')
  if name and string.sub(form, 1, #name) == name then
    redis.call('HSET', K.writer, 'form', name)
  else
    redis.call('HDEL', K.writer, 'form')
  end
  -- An earlier version named jobs without the API group: what it knew of their children stands under other keys.
  local known = redis.call('SRANDMEMBER', K.known)
  if known and not string.find(known, '^[^/]*%.') then redis.call('HDEL', K.writer, 'synced') end
end
-- An earlier writer had half of everything, and what has come since is not known.
redis.call('HDEL', K.writer, 'children')
local time = redis.call('TIME')
local seq = math.max(number(redis.call('HGET', K.writer, 'seq')) + 1, time[1] * 1000000 + time[2])
redis.call('HSET', K.writer, 'token', ARGV[2], 'seq', whole(seq))
return seq
