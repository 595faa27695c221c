-- Write those changes of the projection that need no more memory, also in a Redis that has reached maxmemory: deletions,
-- and records that are no longer than the stored ones. The steps are those of apply.lua, which follows this text.
--
-- ARGV  as of apply.lua
-- Keys  writer, job, known, unfinished, progress, seen, gone, dirty, running, delayed, failures, deaths, min_observed, echo, news, rests, line, in_line, turn, broker
-- Gives {new seq, keys to publish...}; errors FENCED, LOST.
local FREES_ONLY = true
