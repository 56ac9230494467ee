-- claim_take.lua: lease jobs that were picked by their place among the pending ones, if they are still there and due.
-- KEYS meta paused pending body state leases events
-- WITH clock lanes lease
-- ARGV told, worker, token, lease, then members of the pending set
-- Race: taken or changed since it was picked -> its member is gone (or another), and it is passed by.
-- Returns now, how many were left for the next time, then body, state, … of those that were taken

local now = tell(ARGV[1])
local paused = paused_at(now)
local picked = {}
for at = 5, #ARGV do
  local member = ARGV[at]
  if not paused[queue_of(member)] and tail_of(member) <= now and redis.call('ZSCORE', PENDING, member) then
    picked[#picked + 1] = member
  end
end
if #picked == 0 then return { digits(now), 0 } end
local answer, left = lease(picked, { { ARGV[2], ARGV[3], tonumber(ARGV[4]), #picked } }, now)
table.insert(answer, 1, left)
table.insert(answer, 1, digits(now))
return answer
