-- Note the version at which a job rests.
--
-- ARGV  1 prefix   2 key   3 '<UID> <resourceVersion>'
-- Keys  job, rests
-- Gives 1.
--
-- Not of a job that has gone since it was read: its deletion has been projected, and nothing would delete this key for a
-- day. Whoever makes and deletes many jobs would fill Redis.
if redis.call('HEXISTS', K.job .. ARGV[2], 'job') == 1 then
  redis.call('SET', K.rests .. ARGV[2], ARGV[3], 'EX', REST_TTL_SECONDS)
end
return 1
