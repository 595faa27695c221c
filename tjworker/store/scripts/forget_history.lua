-- The cluster's history began anew: what holds resourceVersions goes. Between begin and end the store names the keys that are
-- one a job, some at a time; nothing may be decided on what is left of them, and until the end the next writer sees that it is
-- not done.
--
-- ARGV  1 prefix   2 writer's token   3 seq that the writer remembers   4 'begin' | 'part' | 'end'   5... keys of a part
-- Keys  writer, known, unfinished, progress, nodes, load, job, seen, gone, floor, echo, news
-- Gives the new seq; errors FENCED, LOST.
local refused = refuse_writer(ARGV[2], ARGV[3])
if refused then return refused end
redis.call('HDEL', K.writer, 'synced')
for i = 5, #ARGV do redis.call('UNLINK', ARGV[i]) end
if ARGV[4] == 'end' then
  redis.call('DEL', K.known, K.unfinished, K.progress, K.nodes, K.load)
  redis.call('HDEL', K.writer, 'cluster')
end
return redis.call('HINCRBY', K.writer, 'seq', 1)
