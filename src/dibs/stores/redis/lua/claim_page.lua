-- claim_page.lua: list due jobs of the lanes that are asked for, lane by lane, a page at a time; for other orders.
-- KEYS meta paused pending
-- WITH clock lanes
-- ARGV told, how many, the last one of the page before ('' at first), queues, tasks, both sorted by bytes
-- Returns now, then members of the pending set. It leases nothing: what is picked of them, claim_take looks at again.

local now = tell(ARGV[1])
local most, last = tonumber(ARGV[2]), ARGV[3]
local queues, tasks, at
queues, at = names_at(4)
tasks = names_at(at)
local after_now = struct.pack('>I8', now + 1)
local page = { digits(now) }

-- By bytes: how Lua itself compares strings depends on the server's locale.
local function is_before(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = string.byte(one, at), string.byte(other, at)
    if a ~= b then return a < b end
  end
  return #one < #other
end

local reached = last ~= '' and lane_of(last)
each_lane(queues, tasks, paused_at(now), function(lane)
  if #page > most or (reached and is_before(lane, reached)) then return end
  local from = lane == reached and '(' .. last or '[' .. lane
  local found = redis.call('ZRANGEBYLEX', PENDING, from, '(' .. lane .. after_now, 'LIMIT', 0, most + 1 - #page)
  for _, member in ipairs(found) do page[#page + 1] = member end
end)
return page
