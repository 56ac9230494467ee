-- find_order.lua: list jobs in the order of enqueueing, a page at a time.
-- KEYS order
-- ARGV where the range begins and ends, newest first ('1') or not, how many
-- Returns seqs

if ARGV[3] == '1' then return redis.call('ZREVRANGEBYLEX', ORDER, ARGV[2], ARGV[1], 'LIMIT', 0, ARGV[4]) end
return redis.call('ZRANGEBYLEX', ORDER, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[4])
