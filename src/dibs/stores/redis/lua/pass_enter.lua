-- pass_enter.lua: make a pass valid, from its first number on.
-- KEYS meta passes
-- WITH clock
-- ARGV told, pass
-- A pass is when it was made (8), the lowest number that is valid (6). One that is gone is not valid: it may go any time.
-- Returns now

local now = tell(ARGV[1])
redis.call('HSETNX', PASSES, ARGV[2], struct.pack('>I8I6', now, 0))
return digits(now)
