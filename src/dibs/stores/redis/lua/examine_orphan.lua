-- examine_orphan.lua: count what no one looks after: leases that ran out, and finished jobs that should be gone.
-- KEYS meta leases done
-- WITH clock
-- ARGV told, how late a lease must be, how late a finished job
-- Returns how many of each

local now = tell(ARGV[1])
local late = redis.call('ZCOUNT', LEASES, '-inf', '(' .. digits(now - tonumber(ARGV[2])))
local overdue, old, from = struct.pack('>I8', now - tonumber(ARGV[3])), 0, '-'
while true do
  local first = redis.call('ZRANGEBYLEX', DONE, from, '+', 'LIMIT', 0, 1)[1]
  if not first then break end
  local name = string.sub(first, 1, -17)
  old = old + redis.call('ZLEXCOUNT', DONE, '[' .. name, '(' .. name .. overdue)
  from = '(' .. name .. '\255'
end
return { late, old }
