-- Mark that every list except those of jobs has been projected: passes may decide on a view that has its job.
--
-- ARGV  1 prefix   2 writer's token   3 seq that the writer remembers
-- Keys  writer
-- Gives the new seq; errors FENCED, LOST.
local refused = refuse_writer(ARGV[2], ARGV[3])
if refused then return refused end
redis.call('HSET', K.writer, 'children', 1)
return count(K.writer, 'seq')
