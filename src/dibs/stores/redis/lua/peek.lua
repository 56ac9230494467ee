-- peek.lua: say when a request may find something.
-- KEYS meta paused pending
-- WITH clock lanes
-- ARGV told, attempts that must be left, queues, tasks
-- Returns now, and when the first job asked for is due ('' if there is none)

local now = tell(ARGV[1])
local wanted = tonumber(ARGV[2])
local queues, tasks, at
queues, at = names_at(3)
tasks = names_at(at)
local earliest

each_lane(queues, tasks, paused_at(now), function(lane, member)
  local due, _, left = tail_of(member)
  if left < wanted then
    -- A filter costs what it skips, but no more than so much: then a look in vain is the smaller evil.
    for _, other in ipairs(redis.call('ZRANGEBYLEX', PENDING, '[' .. lane, '(' .. lane .. '\255', 'LIMIT', 0, 500)) do
      due, _, left = tail_of(other)
      if left >= wanted then break end
    end
  end
  if left >= wanted and (not earliest or due < earliest) then earliest = due end
end)
return { digits(now), earliest and digits(earliest) or '' }
