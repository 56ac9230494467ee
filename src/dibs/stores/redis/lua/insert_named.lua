-- insert_named.lua: read the jobs that drafts may name.
-- KEYS ids idem unique body state
-- ARGV how many ids, how many idempotency keys, then ids, idempotency keys and unique keys
-- Returns body, state of each, '' for what is not there

local ids, keys = tonumber(ARGV[1]), tonumber(ARGV[2])
local answer = {}
for at = 3, #ARGV do
  local from = at - 2 <= ids and IDS or at - 2 <= ids + keys and IDEM or UNIQUE
  local seq = redis.call('HGET', from, ARGV[at])
  answer[#answer + 1] = seq and redis.call('HGET', BODY, seq) or ''
  answer[#answer + 1] = seq and redis.call('HGET', STATE, seq) or ''
end
return answer
