-- stage_left.lua: list some jobs of a large group that is not to be shown: one that is named, or one that was left.
-- KEYS meta body order staged
-- WITH clock
-- ARGV told, the group ('' any that is older than so many microseconds), that age, how many jobs
-- Race: its caller is about to show it -> it is marked first, and cannot be shown from then on.
-- Returns the group, then place and body of each; nothing if there is no such group (any more)

local now, group = tell(ARGV[1]), ARGV[2]
if group == '' then
  group = redis.call('ZRANGEBYSCORE', STAGED, '-inf', digits(now - tonumber(ARGV[3])), 'LIMIT', 0, 1)[1]
end
if not group then return {} end
local marked = #group == 16 and 'x' .. group or group
if redis.call('ZREM', STAGED, group) == 0 and not redis.call('ZSCORE', STAGED, marked) then return {} end
local places = redis.call('ZRANGEBYLEX', ORDER, '[' .. string.sub(marked, 2, 9), '[' .. string.sub(marked, 10),
  'LIMIT', 0, ARGV[4])
if #places == 0 then
  redis.call('ZREM', STAGED, marked)
  return {}
end
redis.call('ZADD', STAGED, '0', marked)
local answer = { marked }
for _, place in ipairs(places) do
  answer[#answer + 1] = place
  answer[#answer + 1] = redis.call('HGET', BODY, place)
end
return answer
