-- now.lua: tell the time.
-- KEYS meta
-- WITH clock
-- ARGV told
-- Returns microseconds

return digits(tell(ARGV[1]))
