-- job_by_seq.lua: read jobs by their places in the order of enqueueing, as many as fit.
-- KEYS body state staged
-- WITH staged
-- ARGV most bytes, then seqs
-- Returns body, state of each, '' for what is gone; the rest is to be asked for again

local most, bytes, answer, is_hidden = tonumber(ARGV[1]), 0, {}, hidden()
for at = 2, #ARGV do
  if bytes > most then break end
  local body = not is_hidden(ARGV[at]) and redis.call('HGET', BODY, ARGV[at]) or ''
  local state = redis.call('HGET', STATE, ARGV[at]) or ''
  bytes = bytes + #body + #state
  answer[#answer + 1] = body
  answer[#answer + 1] = state
end
return answer
