-- Names of the children of some jobs, of one resource. Here and not in Python: most jobs have finished and have no
-- children, and cost no answer.
--
-- ARGV  1 prefix   2 '<resource>/'   then keys
-- Keys  job
-- Gives pairs: key, name.
local found, start = {}, ARGV[2]
for i = 3, #ARGV do
  for _, field in ipairs(redis.call('HKEYS', K.job .. ARGV[i])) do
    if string.sub(field, 1, #start) == start then
      found[#found + 1] = ARGV[i]
      found[#found + 1] = string.sub(field, #start + 1)
    end
  end
end
return found
