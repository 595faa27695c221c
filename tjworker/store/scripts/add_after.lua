-- Queue a key later. The earlier of two times stays.
--
-- ARGV  1 prefix   2 key   3 seconds
-- Keys  delayed
redis.call('ZADD', K.delayed, 'LT', now() + tonumber(ARGV[3]), ARGV[2])
return 1
