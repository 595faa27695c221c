-- Delete every key that holds resourceVersions: the cluster has a new history.
--
-- ARGV  1 prefix   2 writer's token   3 seq that the writer remembers   4 'begin' | 'part' | 'end'
--       then, for a part, keys
-- Keys  writer, known, unfinished, progress, nodes, node_requests, job, seen, gone, min_observed, echo, news, rests
-- Gives the new seq; errors FENCED, LOST.
--
-- Between begin and end, RedisProjection.reset names the keys of single jobs, a part of them per call. Meanwhile
-- nothing is synced, so no pass decides. A writer that takes over before the end finds `progress` and repeats the
-- reset.
local refused = refuse_writer(ARGV[2], ARGV[3])
if refused then return refused end
redis.call('HDEL', K.writer, 'synced', 'children')
for i = 5, #ARGV do redis.call('UNLINK', ARGV[i]) end
if ARGV[4] == 'end' then
  redis.call('DEL', K.known, K.unfinished, K.progress, K.nodes, K.node_requests)
  redis.call('HDEL', K.writer, 'cluster')
end
return count(K.writer, 'seq')
