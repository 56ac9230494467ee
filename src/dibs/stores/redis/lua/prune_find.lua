-- prune_find.lua: list finished jobs whose time is over, as many as fit.
-- KEYS meta done body state
-- WITH clock
-- ARGV told, how many, most bytes
-- Cost: a look-up for each queue and way of ending, and for each job found.
-- Returns now, then seq, body, state of each

local now, limit, most, bytes = tell(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), 0
local after_now = struct.pack('>I8', now + 1)
local answer, number, from = { digits(now) }, 0, '-'
while number < limit and bytes <= most do
  local first = redis.call('ZRANGEBYLEX', DONE, from, '+', 'LIMIT', 0, 1)[1]
  if not first then break end
  local name = string.sub(first, 1, -17)
  for _, member in ipairs(redis.call('ZRANGEBYLEX', DONE, '[' .. name, '(' .. name .. after_now, 'LIMIT', 0, limit - number)) do
    if bytes > most then break end
    local seq = string.sub(member, -8)
    local body, state = redis.call('HGET', BODY, seq), redis.call('HGET', STATE, seq)
    bytes = bytes + #body + #state
    number = number + 1
    answer[#answer + 1] = seq
    answer[#answer + 1] = body
    answer[#answer + 1] = state
  end
  from = '(' .. name .. '\255'
end
return answer
