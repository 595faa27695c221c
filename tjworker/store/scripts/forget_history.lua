-- The cluster's history began anew: what holds resourceVersions goes. Between the two calls the store deletes the keys that
-- are one a job; nothing may be decided on what is left of them, and until the end the next writer sees that it is not done.
--
-- ARGV  1 prefix   2 writer's token   3 seq that the writer remembers   4 'begin' | 'end'
-- Keys  writer, known, unfinished, progress, nodes, load
-- Gives the new seq; errors FENCED, LOST.
local refused = refuse_writer(ARGV[2], ARGV[3])
if refused then return refused end
redis.call('HDEL', K.writer, 'synced')
if ARGV[4] == 'end' then
  redis.call('DEL', K.known, K.unfinished, K.progress, K.nodes, K.load)
  redis.call('HDEL', K.writer, 'cluster')
end
return redis.call('HINCRBY', K.writer, 'seq', 1)
