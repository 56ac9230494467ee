-- stage_drop.lua: remove some jobs that were never shown.
-- KEYS ids body order index
-- ARGV of each job: its place, its id, how many indexes it is in, and those
-- Returns nothing

local at = 1
while at < #ARGV do
  local place, id, number = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  if redis.call('HGET', IDS, id) == place then redis.call('HDEL', IDS, id) end
  redis.call('HDEL', BODY, place)
  redis.call('ZREM', ORDER, place)
  for n = 1, number do redis.call('ZREM', INDEX, ARGV[at + 2 + n] .. place) end
  at = at + 3 + number
end
