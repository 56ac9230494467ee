-- count.lua: count the jobs of one queue, or of all, from their places among the pending, leased and finished.
-- KEYS meta paused pending leases done
-- WITH clock lanes claimed
-- ARGV told, queue ('' all), how many leases to walk
-- Race: a job that is claimed or settled meanwhile -> all places are counted in this one script, so that none is missed
--   (test_counts_miss_no_job_that_moves); but for leases beyond the first thousands, which are walked by and by.
-- Cost: a look-up for each lane, and for each way of ending; how many there are of a kind does not matter, but for leases.
-- Returns how many leases it has walked, how many queues those are of, and queue, number of each; then for each queue:
--   name, pending, scheduled, completed, failed, cancelled, when the first was due ('' none)

local now = tell(ARGV[1])
local after_now = struct.pack('>I8', now + 1)
local rows, by_name = {}, {}

local function row_of(queue)
  local row = by_name[queue]
  if not row then
    row = { queue, 0, 0, 0, 0, 0 }
    by_name[queue] = row
    rows[#rows + 1] = row
  end
  return row
end

each_lane(ARGV[2] ~= '' and { ARGV[2] } or nil, nil, {}, function(lane, member)
  local row = row_of(queue_of(member))
  local all = redis.call('ZLEXCOUNT', PENDING, '[' .. lane, '(' .. lane .. '\255')
  local due = redis.call('ZLEXCOUNT', PENDING, '[' .. lane, '(' .. lane .. after_now)
  row[2], row[3] = row[2] + due, row[3] + all - due
  local at = tail_of(member)
  if at <= now and (not row.first or at < row.first) then row.first = at end
end)

local ENDS = { d = 4, f = 5, x = 6 }
local from, upto = '-', '+'
if ARGV[2] ~= '' then from, upto = '[' .. ARGV[2] .. '\0', '(' .. ARGV[2] .. '\1' end
while true do
  local member = redis.call('ZRANGEBYLEX', DONE, from, upto, 'LIMIT', 0, 1)[1]
  if not member then break end
  local queue = queue_of(member)
  local name = string.sub(member, 1, #queue + 2)
  local place = ENDS[string.sub(name, -1)]
  row_of(queue)[place] = redis.call('ZLEXCOUNT', DONE, '[' .. name, '(' .. name .. '\255')
  from = '(' .. name .. '\255'
end

local answer = leased(0, tonumber(ARGV[3]))
for _, row in ipairs(rows) do
  for at = 1, 6 do answer[#answer + 1] = row[at] end
  answer[#answer + 1] = row.first and digits(row.first) or ''
end
return answer
