-- Become the writer of the projection.
--
-- ARGV  1 prefix   2 token of the new writer; one that has led before may lead again
--       3 form of the records that it writes, '' if it does not matter   4 '1': ignore the token in Redis
-- Keys  writer, known
-- Gives the `seq` from which its writes are counted; error FENCED if a newer writer has led.
--
-- That `seq` is greater than those of all earlier states, so that a backup from before a FLUSHALL is recognised as
-- older. A count that started from zero would be below that of the backup.
local token = redis.call('HGET', K.writer, 'token')
if number(token) > tonumber(ARGV[2]) and ARGV[4] ~= '1' then
  return redis.error_reply('FENCED writer ' .. ARGV[2] .. ' by writer ' .. token)
end
-- From here on records of both forms are mixed, until a writer has listed everything. If the same key has sealed both,
-- they can be read: then the name of the key, which comes first, stays in the form.
local form = redis.call('HGET', K.writer, 'form') or ''
if ARGV[3] ~= '' and form ~= ARGV[3] then
  local name = string.match(ARGV[3], '^[^:]*:')
  if name and string.sub(form, 1, #name) == name then
    redis.call('HSET', K.writer, 'form', name)
  else
    redis.call('HDEL', K.writer, 'form')
  end
  -- An earlier version named jobs without the API group, and stored their children under those names.
  local known = redis.call('SRANDMEMBER', K.known)
  if known and not string.find(known, '^[^/]*%.') then redis.call('HDEL', K.writer, 'synced') end
end
-- The lists of an earlier writer were not complete, and this writer does not know what has happened since.
redis.call('HDEL', K.writer, 'children')
local time = redis.call('TIME')
local seq = math.max(number(redis.call('HGET', K.writer, 'seq')) + 1, time[1] * 1000000 + time[2])
redis.call('HSET', K.writer, 'token', ARGV[2], 'seq', whole(seq))
return seq
