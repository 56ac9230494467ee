-- pause_copy.lua: let a shard know which queues are paused: all of them, as they were at one moment.
-- KEYS meta paused news
-- ARGV how often that had changed by then, what to tell those who wait ('' nothing), then queue, until when of each
-- Race: two copies cross on their way -> the older one is ignored.
-- Returns 1 (done) or 0 (it knew better)

if tonumber(ARGV[1]) <= tonumber(redis.call('HGET', META, 'pauses') or 0) then return 0 end
redis.call('DEL', PAUSED)
for at = 3, #ARGV, 2 do redis.call('HSET', PAUSED, ARGV[at], ARGV[at + 1]) end
redis.call('HSET', META, 'pauses', ARGV[1])
if ARGV[2] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[2]) end
return 1
