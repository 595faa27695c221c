-- Note the version at which a job rests.
--
-- ARGV  1 prefix   2 key   3 resourceVersion
-- Keys  job, rests, seen, progress, min_observed
-- Gives 1.
--
-- Not for a job that was deleted since it was read: its deletion has been projected already, so this key would stay for
-- a day, and a user who creates and deletes many jobs would fill Redis.
if redis.call('HEXISTS', K.job .. ARGV[2], 'job') == 1 then
  redis.call('SET', K.rests .. ARGV[2], ARGV[3], 'EX', REST_TTL_SECONDS)
  -- The watch has shown every own write, so no view can be behind them. The key would cost as much memory as the
  -- record.
  if has_caught_up(ARGV[2]) then redis.call('DEL', K.min_observed .. ARGV[2]) end
end
return 1
