-- Claimed jobs, counted by queue: each lease is seq(8) queue. Needs LEASES.

-- how many it has walked, how many queues they are of, then queue, number of each
local function leased(start, most)
  local found, rows = redis.call('ZRANGE', LEASES, start, start + most - 1), {}
  for _, member in ipairs(found) do
    local queue = string.sub(member, 9)
    rows[queue] = (rows[queue] or 0) + 1
  end
  local answer, queues = { #found, 0 }, 0
  for queue, number in pairs(rows) do
    answer[#answer + 1] = queue
    answer[#answer + 1] = number
    queues = queues + 1
  end
  answer[2] = queues
  return answer
end
