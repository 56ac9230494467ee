-- extend.lua: lengthen leases whose claims are current, and note how far their work has come.
-- KEYS meta ids state leases
-- WITH clock
-- ARGV told, then id, fence, token, progress ('' as it was), note of each; no job twice
-- Race: reaped or taken over a moment ago -> status, fence and token are compared here. A lease never becomes shorter.
-- Returns 1 (extended) or 0 (lost) for each

local STATE_FIXED = '>c1c1I4I4I4c8I8I8I8I8I8I8I8I2I2I2I2I1I2I4'

local now = tell(ARGV[1])
local ids, answer = {}, {}
for at = 2, #ARGV, 5 do ids[#ids + 1] = ARGV[at] end
local seqs = redis.call('HMGET', IDS, unpack(ids))
for at = 1, #seqs do seqs[at] = seqs[at] or '' end
local states = redis.call('HMGET', STATE, unpack(seqs))
local leased, put = {}, {}

for at, state in ipairs(states) do
  answer[at] = 0
  if state then
    local status, settled, fence, attempts, events, due, _, claimed, ends, length, completed, expires, keep, nworker,
      ntoken, nqueue, nunique, progress, said, failed = struct.unpack(STATE_FIXED, state)
    local from = 94 + nqueue + nunique + nworker
    local arg = 5 * at - 3
    if status == 'c' and fence == tonumber(ARGV[arg + 1]) and string.sub(state, from, from + ntoken - 1) == ARGV[arg + 2] then
      answer[at] = 1
      ends = math.max(ends, now + length)
      local rest = from + ntoken
      local told = string.sub(state, rest, rest + progress + said - 1)
      local beyond = string.sub(state, rest + progress + said)
      if ARGV[arg + 3] ~= '' then
        told = ARGV[arg + 3] .. ARGV[arg + 4]
        progress, said = #ARGV[arg + 3], #ARGV[arg + 4]
      end
      leased[#leased + 1] = digits(ends)
      leased[#leased + 1] = seqs[at] .. string.sub(state, 94, 93 + nqueue)
      put[#put + 1] = seqs[at]
      put[#put + 1] = struct.pack(STATE_FIXED, status, settled, fence, attempts, events, due, now, claimed, ends, length,
        completed, expires, keep, nworker, ntoken, nqueue, nunique, progress, said, failed)
        .. string.sub(state, 94, rest - 1) .. told .. beyond
    end
  end
end
if #put > 0 then
  redis.call('ZADD', LEASES, unpack(leased))
  redis.call('HSET', STATE, unpack(put))
  note(now)
end
return answer
