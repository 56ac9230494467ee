-- claim.lua: lease due jobs, best first: priority, then due time, then enqueue order.
-- KEYS meta paused pending body state leases events
-- WITH clock lanes lease
-- ARGV told, 1 or -1 (highest or lowest priority first), queues, tasks, then worker, token, lease, limit of each taker
-- Race: two claimers, one job -> one script at a time. Cost: one look-up for each lane asked for, then the jobs taken.
-- Returns now, whether there may be more, when the first lease runs out if nothing was taken, then body, state, …

local now = tell(ARGV[1])
local sign = tonumber(ARGV[2])
local queues, tasks, at
queues, at = names_at(3)
tasks, at = names_at(at)
local takers, limit = {}, 0
while ARGV[at] do
  local number = tonumber(ARGV[at + 3])
  takers[#takers + 1] = { ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), number }
  limit = limit + number
  at = at + 4
end

local lanes = {}
each_lane(queues, tasks, paused_at(now), function(lane, member)
  local due, seq = tail_of(member)
  if due <= now then
    lanes[#lanes + 1] = { rank = sign * rank_of(member), due = due, seq = seq, lane = lane, member = member }
  end
end)

local function is_better(one, other)
  if one.rank ~= other.rank then return one.rank < other.rank end
  if one.due ~= other.due then return one.due < other.due end
  return one.seq < other.seq
end
if #lanes > 1 then table.sort(lanes, is_better) end

local picked = {}
local after_now = struct.pack('>I8', now + 1)

local function take_all(lane)
  local found = redis.call('ZRANGEBYLEX', PENDING, '[' .. lane.lane, '(' .. lane.lane .. after_now, 'LIMIT', 0,
    limit - #picked)
  for _, member in ipairs(found) do picked[#picked + 1] = member end
end

-- The lane's next due job takes part in the merge; a few are read at a time.
local function advance(lane)
  lane.next = (lane.next or 0) + 1
  if not lane.ahead or lane.next > #lane.ahead then
    lane.ahead = redis.call('ZRANGEBYLEX', PENDING, '(' .. lane.member, '(' .. lane.lane .. after_now, 'LIMIT', 0,
      math.min(16, limit - #picked))
    lane.next = 1
  end
  lane.member = lane.ahead[lane.next]
  if not lane.member then return false end
  lane.due, lane.seq = tail_of(lane.member)
  return true
end

-- Lanes of one priority, sorted by their first jobs: the best is taken, and its lane finds its new place.
local function merge(some)
  while #some > 0 and #picked < limit do
    local lane = table.remove(some, 1)
    picked[#picked + 1] = lane.member
    if #picked < limit and advance(lane) then
      local low, high = 1, #some + 1
      while low < high do
        local middle = math.floor((low + high) / 2)
        if is_better(lane, some[middle]) then high = middle else low = middle + 1 end
      end
      table.insert(some, low, lane)
    end
  end
end

local from = 1
while from <= #lanes and #picked < limit do
  local some = {}
  for upto = from, #lanes do
    if lanes[upto].rank ~= lanes[from].rank then break end
    some[#some + 1] = lanes[upto]
  end
  from = from + #some
  if #some == 1 then
    take_all(some[1])
  else
    -- One job of each lane would be enough.
    for beyond = #some, limit - #picked + 1, -1 do some[beyond] = nil end
    merge(some)
  end
end

if #picked == 0 then
  local first_lease = redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
  return { digits(now), 0, first_lease and digits(tonumber(first_lease)) or '' }
end
local answer, left = lease(picked, takers, now)
table.insert(answer, 1, '')
table.insert(answer, 1, left)
table.insert(answer, 1, digits(now))
return answer
