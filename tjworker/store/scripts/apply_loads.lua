-- Write what the pods of each node ask for.
--
-- ARGV  1 prefix   2 writer's token   3 seq that the writer remembers   4 '1': nodes that are not named have none
--       then triples: node, 'put' or 'del', record
-- Keys  writer, load
-- Gives the new seq; errors FENCED, LOST.
local refused = refuse_writer(ARGV[2], ARGV[3])
if refused then return refused end
if ARGV[4] == '1' then redis.call('DEL', K.load) end
for i = 5, #ARGV, 3 do
  if ARGV[i + 1] == 'put' then
    redis.call('HSET', K.load, ARGV[i], ARGV[i + 2])
  else
    redis.call('HDEL', K.load, ARGV[i])
  end
end
return redis.call('HINCRBY', K.writer, 'seq', 1)
