-- stage_drop.lua: remove some jobs that were never shown.
-- KEYS body order index
-- ARGV of each job: its place, how many indexes it is in, and those
-- Returns nothing

local at = 1
while at < #ARGV do
  local place, number = ARGV[at], tonumber(ARGV[at + 1])
  redis.call('HDEL', BODY, place)
  redis.call('ZREM', ORDER, place)
  for n = 1, number do redis.call('ZREM', INDEX, ARGV[at + 1 + n] .. place) end
  at = at + 2 + number
end
