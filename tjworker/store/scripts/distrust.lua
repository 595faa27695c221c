-- Take out records that the watcher has not written, and have it list everything again.
--
-- ARGV  1 prefix   then triples: 'job', 'node' or 'requests'; job key, '' for the latter two; field
-- Keys  writer, job, seen, gone, nodes, node_requests
-- Gives 1.
--
-- With the count of its writes at 0 the writer's next one is refused with LOST, so that it leads and lists again; older
-- writers stay fenced. A record or tombstone with too high a version would outlive that list, so both go.
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
