-- sweep.lua: remove what is left of jobs that went a day ago, documents whose time is over, and passes of a day ago.
-- KEYS meta gone graves documents names brief paused passes
-- WITH clock
-- ARGV told, a day, how many of each
-- Race: an id that went again since, a document that was written again -> only what has that very time is removed.
-- Returns how many there were of the more numerous

local now, limit = tell(ARGV[1]), tonumber(ARGV[3])
local graves = redis.call('ZRANGEBYLEX', GRAVES, '-', '(' .. struct.pack('>I8', now - tonumber(ARGV[2]) + 1), 'LIMIT', 0, limit)
local brief = redis.call('ZRANGEBYLEX', BRIEF, '-', '(' .. struct.pack('>I8', now + 1), 'LIMIT', 0, limit)
local passes = redis.call('HGETALL', PASSES)
for _, place in ipairs(graves) do
  local id = string.sub(place, 9)
  local event = redis.call('HGET', GONE, id)
  redis.call('ZREM', GRAVES, place)
  if event and string.sub(event, 1, 8) == string.sub(place, 1, 8) then redis.call('HDEL', GONE, id) end
end
for _, place in ipairs(brief) do
  local name = string.sub(place, 9)
  local document = redis.call('HGET', DOCUMENTS, name)
  redis.call('ZREM', BRIEF, place)
  if document and string.sub(document, 17, 24) == string.sub(place, 1, 8) then
    redis.call('HDEL', DOCUMENTS, name)
    redis.call('ZREM', NAMES, name)
    if string.sub(name, 1, 7) == 'paused/' then
      redis.call('HDEL', PAUSED, string.sub(name, 8))
      redis.call('HINCRBY', META, 'pauses', 1)
    end
  end
end
for at = 1, #passes, 2 do
  if struct.unpack('>I8', passes[at + 1]) < now - tonumber(ARGV[2]) then redis.call('HDEL', PASSES, passes[at]) end
end
return math.max(#graves, #brief)
