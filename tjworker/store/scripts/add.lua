-- Queue keys.
--
-- ARGV  1 prefix   then keys
-- Keys  dirty, line, in_line, turn, running, deaths, delayed, lock, broker
-- Gives the keys to publish: those that were neither queued nor running, and that no waiting task serves.
local at = now()
local publish = {}
for i = 2, #ARGV do
  if enqueue(ARGV[i], at) then publish[#publish + 1] = ARGV[i] end
end
return leave_to_publish(publish, 1)
