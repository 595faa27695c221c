-- Write the changes of the projection that need no more memory, also in a Redis that has reached maxmemory: deletions,
-- and records that are no longer than the stored ones. The text of apply.lua follows.
--
-- ARGV  the same as for apply.lua
-- Keys  writer, job, known, unfinished, progress, seen, gone, dirty, running, delayed, failures, deaths, min_observed, echo, news, rests, line, in_line, turn, broker
-- Gives {new seq, keys to publish...}; errors FENCED, LOST.
local FREES_ONLY = true
