-- Write the resource requests of each node's pods.
--
-- ARGV  1 prefix   2 writer's token   3 seq that the writer remembers   4 '1': nodes that are not named have none
--       then triples: node, 'put' or 'del', record
-- Keys  writer, node_requests
-- Gives the new seq; errors FENCED, LOST.
local refused = refuse_writer(ARGV[2], ARGV[3])
if refused then return refused end
if ARGV[4] == '1' then redis.call('DEL', K.node_requests) end
put_each(K.node_requests, 5)
return count(K.writer, 'seq')
