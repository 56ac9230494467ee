-- complete.lua: end claims well, those that are current and need no more than that.
-- KEYS meta ids state leases done unique events
-- WITH clock
-- ARGV told, then id, fence, token, result of each; no job twice
-- Race: a holder that was taken over -> status, fence and token are compared here. All others are left to `judge`.
-- Returns 1 (completed) or 0 (to be judged) for each

local STATE_FIXED = '>c1c1I4I4I4c8I8I8I8I8I8I8I8I2I2I2I2I1I2I4'
local EVENT_FIXED = '>c1c1c1I4I4c8I8I8I2I2'

local now = tell(ARGV[1])
local ids, answer = {}, {}
for at = 2, #ARGV, 4 do ids[#ids + 1] = ARGV[at] end
local seqs = redis.call('HMGET', IDS, unpack(ids))
for at = 1, #seqs do seqs[at] = seqs[at] or '' end
local states = redis.call('HMGET', STATE, unpack(seqs))
local unleased, ended, put, logged, names, owners = {}, {}, {}, {}, {}, {}

for at, state in ipairs(states) do
  answer[at] = 0
  if state then
    local status, _, fence, attempts, events, due, _, claimed, ends, length, _, _, keep, nworker, ntoken, nqueue,
      nunique, progress, said = struct.unpack(STATE_FIXED, state)
    local from = 94 + nqueue + nunique
    local worker = string.sub(state, from, from + nworker - 1)
    local token = string.sub(state, from + nworker, from + nworker + ntoken - 1)
    local arg = 4 * at - 2
    if status == 'c' and fence == tonumber(ARGV[arg + 1]) and token == ARGV[arg + 2] and keep > 0 then
      answer[at] = 1
      local seq, queue = seqs[at], string.sub(state, 94, 93 + nqueue)
      local rest = from + nworker + ntoken
      unleased[#unleased + 1] = seq .. queue
      ended[#ended + 1] = '0'
      ended[#ended + 1] = queue .. '\0d' .. struct.pack('>I8', now + keep) .. seq
      put[#put + 1] = seq
      put[#put + 1] = struct.pack(STATE_FIXED, 'd', 'D', fence, attempts + 1, events + 1, due, now, claimed, ends,
        length, now, now + keep, keep, nworker, ntoken, nqueue, nunique, progress, said, 0)
        .. string.sub(state, 94, rest + progress + said - 1) .. ARGV[arg + 3]
      logged[#logged + 1] = seq .. struct.pack('>I4', events + 1)
      logged[#logged + 1] = struct.pack(EVENT_FIXED, 'D', 'c', 'd', fence, attempts + 1, due, ends, now, nworker, 0)
        .. worker
      if nunique > 0 then
        names[#names + 1] = string.sub(state, 94 + nqueue, from - 1)
        owners[#owners + 1] = seq
      end
    end
  end
end
if #unleased == 0 then return answer end
local holders = #names > 0 and redis.call('HMGET', UNIQUE, unpack(names)) or {}
redis.call('ZREM', LEASES, unpack(unleased))
redis.call('ZADD', DONE, unpack(ended))
redis.call('HSET', STATE, unpack(put))
redis.call('HSET', EVENTS, unpack(logged))
for at, holder in ipairs(holders) do
  if holder == owners[at] then redis.call('HDEL', UNIQUE, names[at]) end
end
note(now)
return answer
