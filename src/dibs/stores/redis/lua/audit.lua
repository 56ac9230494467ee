-- audit.lua: read jobs with their logs, in the order of enqueueing, as many as fit; each pair as it is at one moment.
-- KEYS body state order events
-- ARGV after which seq, how many, most bytes
-- Returns for each: seq, body, state, how many events follow, and those

local most, bytes, answer = tonumber(ARGV[3]), 0, {}
for _, seq in ipairs(redis.call('ZRANGEBYLEX', ORDER, '(' .. ARGV[1], '+', 'LIMIT', 0, ARGV[2])) do
  if bytes > most then break end
  local body, state = redis.call('HGET', BODY, seq), redis.call('HGET', STATE, seq) or ''
  local number = state ~= '' and struct.unpack('>I4', state, 11) or 1
  bytes = bytes + #body + #state + 60 * number
  answer[#answer + 1] = seq
  answer[#answer + 1] = body
  answer[#answer + 1] = state
  answer[#answer + 1] = number - 1
  for event = 2, number do
    answer[#answer + 1] = redis.call('HGET', EVENTS, seq .. struct.pack('>I4', event)) or ''
  end
end
return answer
