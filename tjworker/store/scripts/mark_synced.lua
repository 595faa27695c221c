-- Mark that every list has been projected: passes may decide.
--
-- ARGV  1 prefix   2 writer's token   3 seq that the writer remembers   4 cluster id, '' when it is not known
--       5 form of the records
-- Keys  writer
-- Gives the new seq; errors FENCED, LOST.
local refused = refuse_writer(ARGV[2], ARGV[3])
if refused then return refused end
redis.call('HSET', K.writer, 'synced', 1, 'form', ARGV[5])
redis.call('HDEL', K.writer, 'children')
if ARGV[4] ~= '' then redis.call('HSET', K.writer, 'cluster', ARGV[4]) end
return count(K.writer, 'seq')
