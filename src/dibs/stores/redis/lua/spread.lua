-- spread.lua: say over how many shards queues are spread; and spread them further, if that is asked for.
-- KEYS spread
-- ARGV queue ('' all that are not named), how many of each
-- A queue can only be spread over a multiple of what it is: else jobs would be left where no one looks for them.
-- Returns queue, how many of each

for at = 1, #ARGV, 2 do
  local found = tonumber(redis.call('HGET', SPREAD, ARGV[at]) or redis.call('HGET', SPREAD, '') or 1)
  if tonumber(ARGV[at + 1]) > found and tonumber(ARGV[at + 1]) % found == 0 then
    redis.call('HSET', SPREAD, ARGV[at], ARGV[at + 1])
  end
end
return redis.call('HGETALL', SPREAD)
