-- Delete records that the watcher has not written, and make it list everything again.
--
-- ARGV  1 prefix   then triples: 'job', 'node' or 'requests'; job key, '' for the latter two; field
-- Keys  writer, job, seen, gone, nodes, node_requests
-- Gives 1.
--
-- Sets the writer's count of writes to 0: its next write fails with LOST, so that it leads and lists again. Older
-- writers stay fenced. A record or tombstone with too high a version would survive that list, so both are deleted.
for i = 2, #ARGV, 3 do
  local what, key, field = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if what == 'job' then
    redis.call('HDEL', K.job .. key, field)
    redis.call('DEL', K.seen .. key, K.gone .. key)
  else
    redis.call('HDEL', what == 'node' and K.nodes or K.node_requests, field)
  end
end
redis.call('HDEL', K.writer, 'synced', 'children')
if redis.call('HEXISTS', K.writer, 'seq') == 1 then redis.call('HSET', K.writer, 'seq', 0) end
return 1
