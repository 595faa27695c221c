-- Repair keys that the operator cannot have written: keys of another type, and keys that expire never or too late
-- although the operator always sets an expiry.
--
-- ARGV  1 prefix   2 name of the key in keys.py   3 its type   4 its longest time to live in milliseconds, '' for any
--       then full names of keys
-- Keys  job, known, unfinished   besides those in ARGV
-- Gives how many were repaired.
local repaired = 0
for i = 5, #ARGV do
  local key, type_is = ARGV[i], redis.call('TYPE', ARGV[i]).ok
  if type_is ~= 'none' and type_is ~= ARGV[3] then
    redis.call('DEL', key)
    repaired = repaired + 1
  elseif type_is ~= 'none' and ARGV[4] ~= '' then
    local left = redis.call('PTTL', key)
    if left < 0 or left > tonumber(ARGV[4]) then
      redis.call('PEXPIRE', key, ARGV[4])
      repaired = repaired + 1
    end
  elseif ARGV[2] == 'job' and string.match(redis.call('HGET', key, 'job') or '', '^%d+ 0 ') then
    local name = string.sub(key, #K.job + 1)
    repaired = repaired + redis.call('SADD', K.unfinished, name) + redis.call('SADD', K.known, name)
  end
end
return repaired
