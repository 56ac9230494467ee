-- log.lua: read a job's events, or what is left of a job that is gone.
-- KEYS ids body state events gone staged
-- WITH staged
-- ARGV id
-- Returns 1, the times of the body (created, first due), then each event after the first; or 0 and the last event

local seq = redis.call('HGET', IDS, ARGV[1])
if not shows(seq, hidden()) then return { 0, redis.call('HGET', GONE, ARGV[1]) or '' } end
local answer = { 1, string.sub(redis.call('HGET', BODY, seq), 1, 16) }
local state = redis.call('HGET', STATE, seq)
local number = state and struct.unpack('>I4', state, 11) or 1
for from = 2, number, 1000 do
  local fields = {}
  for event = from, math.min(from + 999, number) do fields[#fields + 1] = seq .. struct.pack('>I4', event) end
  for _, event in ipairs(redis.call('HMGET', EVENTS, unpack(fields))) do answer[#answer + 1] = event end
end
return answer
