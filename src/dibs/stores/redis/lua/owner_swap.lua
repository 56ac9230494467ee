-- owner_swap.lua: take names over, or let them go, each if its owner is still the one that was seen.
-- KEYS owners
-- WITH moment
-- ARGV name, the owner that was seen, what it is to be reserved for ('' it is let go) of each; no name twice
-- Returns 1 (done) or 0 (its owner is another) for each

local date, names = moment(), {}
for at = 1, #ARGV, 3 do names[#names + 1] = ARGV[at] end
local owners, answer = redis.call('HMGET', OWNERS, unpack(names)), {}
for at, owner in ipairs(owners) do
  local seen, after = ARGV[3 * at - 1], ARGV[3 * at]
  answer[at] = owner == seen and 1 or 0
  if owner == seen then
    if after == '' then
      redis.call('HDEL', OWNERS, names[at])
    else
      redis.call('HSET', OWNERS, names[at], date .. after)
    end
  end
end
return answer
