-- pass_void.lua: see to it that what was reserved by others will not be made or taken here any more.
-- KEYS ids state passes
-- ARGV id, pass, number, 'u' (a unique key, which a finished job does not hold) or '' of each
-- Race: it is being made at this very moment -> either it is there now, or its pass is void; nothing lies in between.
-- Returns 1 (void) or 0 (it is there) for each

local found = {}
for at = 1, #ARGV, 4 do
  local seq = redis.call('HGET', IDS, ARGV[at])
  local holds = seq ~= false
  if seq and ARGV[at + 3] == 'u' then
    local state = redis.call('HGET', STATE, seq)
    local status = state and string.sub(state, 1, 1) or 'p'
    holds = status == 'p' or status == 'c'
  end
  found[#found + 1] = holds and 0 or 1
end
for at = 1, #ARGV, 4 do
  local pass = redis.call('HGET', PASSES, ARGV[at + 1])
  if found[(at + 3) / 4] == 1 and pass and struct.unpack('>I6', pass, 9) <= tonumber(ARGV[at + 2]) then
    redis.call('HSET', PASSES, ARGV[at + 1], string.sub(pass, 1, 8) .. struct.pack('>I6', tonumber(ARGV[at + 2]) + 1))
  end
end
return found
