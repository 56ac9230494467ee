-- expired.lua: list claims whose lease has run out, longest ago first, as many as fit.
-- KEYS meta leases body state
-- WITH clock
-- ARGV told, how many to pass by, how many, most bytes
-- Returns now, when the first lease runs out ('' if there is none), then body, state of each

local now, most, bytes = tell(ARGV[1]), tonumber(ARGV[4]), 0
local first = redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
local answer = { digits(now), first and digits(tonumber(first)) or '' }
local late = redis.call('ZRANGEBYSCORE', LEASES, '-inf', digits(now), 'LIMIT', ARGV[2], ARGV[3])
for _, member in ipairs(late) do
  if bytes > most then break end
  local seq = string.sub(member, 1, 8)
  local body, state = redis.call('HGET', BODY, seq) or '', redis.call('HGET', STATE, seq) or ''
  bytes = bytes + #body + #state
  answer[#answer + 1] = body
  answer[#answer + 1] = state
end
return answer
