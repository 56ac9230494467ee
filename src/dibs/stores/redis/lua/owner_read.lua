-- owner_read.lua: say who has names.
-- KEYS owners
-- ARGV names
-- Returns the owner of each, '' for none

local answer = redis.call('HMGET', OWNERS, unpack(ARGV))
for at = 1, #answer do answer[at] = answer[at] or '' end
return answer
