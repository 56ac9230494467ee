-- find_index.lua: list the jobs of a batch or with a tag, in the order of enqueueing, a page at a time.
-- KEYS index
-- ARGV where the range begins and ends, newest first ('1') or not, how many
-- Returns places: the index's prefix and the seq

if ARGV[3] == '1' then return redis.call('ZREVRANGEBYLEX', INDEX, ARGV[2], ARGV[1], 'LIMIT', 0, ARGV[4]) end
return redis.call('ZRANGEBYLEX', INDEX, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[4])
