-- pause_read.lua: read which queues are paused, of the shard that has the documents.
-- KEYS meta paused
-- ARGV none
-- Returns how often that has changed, then queue, until when of each

local answer = redis.call('HGETALL', PAUSED)
table.insert(answer, 1, redis.call('HGET', META, 'pauses') or '0')
return answer
