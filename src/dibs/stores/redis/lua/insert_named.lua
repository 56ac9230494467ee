-- insert_named.lua: read the jobs that drafts may name.
-- KEYS ids idem unique body state staged
-- WITH staged
-- ARGV how many ids, how many idempotency keys, then ids, idempotency keys and unique keys
-- Returns body, state of each, '' for what is not there

local ids, keys = tonumber(ARGV[1]), tonumber(ARGV[2])
local answer, is_hidden = {}, hidden()
for at = 3, #ARGV do
  local from = at - 2 <= ids and IDS or at - 2 <= ids + keys and IDEM or UNIQUE
  local seq = redis.call('HGET', from, ARGV[at])
  local is_there = shows(seq, is_hidden)
  answer[#answer + 1] = is_there and redis.call('HGET', BODY, seq) or ''
  answer[#answer + 1] = is_there and redis.call('HGET', STATE, seq) or ''
end
return answer
