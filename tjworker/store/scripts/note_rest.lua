-- Note the version at which a job rests.
--
-- ARGV  1 prefix   2 key   3 resourceVersion
-- Keys  job, rests, seen, progress, min_observed
-- Gives 1.
--
-- Not of a job that has gone since it was read: its deletion has been projected, and nothing would delete this key for a
-- day. Whoever makes and deletes many jobs would fill Redis.
if redis.call('HEXISTS', K.job .. ARGV[2], 'job') == 1 then
  redis.call('SET', K.rests .. ARGV[2], ARGV[3], 'EX', REST_TTL_SECONDS)
  -- No view can be behind an own write that the watch has shown. Kept, it would cost such a job as much as its record.
  if has_caught_up(ARGV[2]) then redis.call('DEL', K.min_observed .. ARGV[2]) end
end
return 1
