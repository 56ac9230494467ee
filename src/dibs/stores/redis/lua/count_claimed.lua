-- count_claimed.lua: count claimed jobs by queue, some at a time.
-- KEYS leases
-- ARGV where to begin, how many
-- Returns how many it has walked, then queue, number of each

local found, rows, answer = redis.call('ZRANGE', LEASES, ARGV[1], ARGV[1] + ARGV[2] - 1), {}, {}
for _, member in ipairs(found) do
  local queue = string.sub(member, 9)
  rows[queue] = (rows[queue] or 0) + 1
end
answer[1] = #found
for queue, number in pairs(rows) do
  answer[#answer + 1] = queue
  answer[#answer + 1] = number
end
return answer
