-- audit.lua: read jobs with their logs, in the order of enqueueing, as many as fit; each pair as it is at one moment.
-- KEYS body state order events staged
-- WITH staged
-- ARGV after which seq, how many, most bytes
-- Returns for each: seq, body, state, how many events follow, and those

local most, bytes, answer, is_hidden = tonumber(ARGV[3]), 0, {}, hidden()

local function add(seq)
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

local after = ARGV[1]
repeat -- again only if all that was found is hidden
  local found = redis.call('ZRANGEBYLEX', ORDER, '(' .. after, '+', 'LIMIT', 0, ARGV[2])
  for _, seq in ipairs(found) do
    if bytes > most then break end
    if not is_hidden(seq) then add(seq) end
  end
  after = found[#found]
until #found == 0 or #answer > 0
return answer
