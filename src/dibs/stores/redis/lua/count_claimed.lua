-- count_claimed.lua: count claimed jobs by queue, some at a time.
-- KEYS leases
-- WITH claimed
-- ARGV where to begin, how many
-- Returns how many it has walked, how many queues they are of, then queue, number of each

return leased(tonumber(ARGV[1]), tonumber(ARGV[2]))
