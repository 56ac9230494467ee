-- job_by_id.lua: read jobs by id, as many as fit.
-- KEYS meta ids body state staged
-- WITH clock staged
-- ARGV told, most bytes, then ids
-- Returns now, then seq, body, state of each, '' for what is not there; the rest is to be asked for again

local now, most, bytes = tell(ARGV[1]), tonumber(ARGV[2]), 0
local answer, is_hidden = { digits(now) }, hidden()
for at = 3, #ARGV do
  if bytes > most then break end
  local seq = redis.call('HGET', IDS, ARGV[at])
  if not shows(seq, is_hidden) then seq = '' end
  local body = seq ~= '' and redis.call('HGET', BODY, seq) or ''
  local state = seq ~= '' and redis.call('HGET', STATE, seq) or ''
  bytes = bytes + #body + #state
  answer[#answer + 1] = seq
  answer[#answer + 1] = body
  answer[#answer + 1] = state
end
return answer
