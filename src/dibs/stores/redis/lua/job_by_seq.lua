-- job_by_seq.lua: read jobs by their places in the order of enqueueing, as many as fit.
-- KEYS body state
-- ARGV most bytes, then seqs
-- Returns body, state of each, '' for what is gone; the rest is to be asked for again

local most, bytes, answer = tonumber(ARGV[1]), 0, {}
for at = 2, #ARGV do
  if bytes > most then break end
  local body = redis.call('HGET', BODY, ARGV[at]) or ''
  local state = redis.call('HGET', STATE, ARGV[at]) or ''
  bytes = bytes + #body + #state
  answer[#answer + 1] = body
  answer[#answer + 1] = state
end
return answer
