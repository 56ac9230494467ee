-- complete.lua: end claims well, those that are current and need no more than that.
-- KEYS meta ids state leases done unique events
-- WITH clock
-- ARGV told, then id, fence, token, result of each; no job twice
-- Race: a holder that was taken over -> status, fence and token are compared here. All others are left to `judge`.
-- Returns 1 (completed) or 0 (to be judged) for each

local now = tell(ARGV[1])
local ids, answer = {}, {}
for at = 2, #ARGV, 4 do ids[#ids + 1] = ARGV[at] end
local seqs = redis.call('HMGET', IDS, unpack(ids))
for at = 1, #seqs do seqs[at] = seqs[at] or '' end
local states = redis.call('HMGET', STATE, unpack(seqs))
local unleased, ended, put, logged, names, owners = {}, {}, {}, {}, {}, {}

-- Bytes are copied where they stay, and written anew only where they change; see values.py for the places.
local date = struct.pack('>I8', now)
local counted, until_ = {}, {} -- attempts and events one higher, and when what is kept so long may go: most are alike

local function one_more(both)
  if not counted[both] then
    local attempts, events = struct.unpack('>I4I4', both)
    counted[both] = struct.pack('>I4I4', attempts + 1, events + 1)
  end
  return counted[both]
end

local function expires(keep)
  if not until_[keep] then until_[keep] = struct.pack('>I8', now + struct.unpack('>I8', keep)) end
  return until_[keep]
end

local NOT_AT_ALL = string.rep('\0', 8) -- a job that is not kept at all is left to `judge`, too

for at, state in ipairs(states) do
  answer[at] = 0
  local arg = 4 * at - 2
  if state and string.sub(state, 1, 1) == 'c' and struct.unpack('>I4', state, 3) == tonumber(ARGV[arg + 1]) then
    local nworker, ntoken, nqueue, nunique, progress, said = struct.unpack('>I2I2I2I2I1I2', state, 79)
    local from = 94 + nqueue + nunique
    local rest, keep = from + nworker + ntoken, string.sub(state, 71, 78)
    if string.sub(state, from + nworker, rest - 1) == ARGV[arg + 2] and keep ~= NOT_AT_ALL then
      answer[at] = 1
      local seq, queue = seqs[at], string.sub(state, 94, 93 + nqueue)
      local fence, due, numbers = string.sub(state, 3, 6), string.sub(state, 15, 22), one_more(string.sub(state, 7, 14))
      local n = #unleased + 1
      local odd, even = 2 * n - 1, 2 * n
      unleased[n] = seq .. queue
      ended[odd], ended[even] = '0', queue .. '\0d' .. expires(keep) .. seq
      put[odd], put[even] = seq, 'dD' .. fence .. numbers .. due .. date .. string.sub(state, 31, 54) .. date
        .. expires(keep) .. string.sub(state, 71, 89) .. '\0\0\0\0'
        .. string.sub(state, 94, rest + progress + said - 1) .. ARGV[arg + 3]
      logged[odd] = seq .. string.sub(numbers, 5, 8)
      logged[even] = 'Dcd' .. fence .. string.sub(numbers, 1, 4) .. due .. string.sub(state, 39, 46) .. date
        .. string.sub(state, 79, 80) .. '\0\0' .. string.sub(state, from, from + nworker - 1)
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
