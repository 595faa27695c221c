-- Write nodes.
--
-- ARGV  1 prefix   2 writer's token   3 seq that the writer remembers
--       then triples: name, 'put' or 'del', record
-- Keys  writer, nodes
-- Gives the new seq; errors FENCED, LOST.
local refused = refuse_writer(ARGV[2], ARGV[3])
if refused then return refused end
put_each(K.nodes, 4)
return count(K.writer, 'seq')
