-- document_put.lua: write or remove a document, if its version is the expected one.
-- KEYS meta documents names brief paused news
-- WITH clock
-- ARGV told, name, expected version ('' any), what it is to be: 'w' written or 'r' removed, for how long ('' for good),
--   the value, what to tell those who wait ('' nothing)
-- A document is version(8) updated(8) expires(8, zeros: never) value. One whose time is over is not there.
-- Returns now and the new version (0: removed), or nothing if the version is another

local now = tell(ARGV[1])
local name, does = ARGV[2], ARGV[4]
local document, version = redis.call('HGET', DOCUMENTS, name), 0
local old_place
if document then
  local found, _, ends = struct.unpack('>I8I8I8', document)
  if ends ~= 0 then old_place = string.sub(document, 17, 24) .. name end
  if ends == 0 or ends > now then version = found end
end
if ARGV[3] ~= '' and tonumber(ARGV[3]) ~= version then return false end

local queue = string.sub(name, 1, 7) == 'paused/' and string.sub(name, 8)
if old_place then redis.call('ZREM', BRIEF, old_place) end
if does == 'w' then
  version = version + 1
  local ends = ARGV[5] ~= '' and now + tonumber(ARGV[5]) or 0
  redis.call('HSET', DOCUMENTS, name, struct.pack('>I8I8I8', version, now, ends) .. ARGV[6])
  redis.call('ZADD', NAMES, 0, name)
  if ends ~= 0 then redis.call('ZADD', BRIEF, 0, struct.pack('>I8', ends) .. name) end
  if queue then redis.call('HSET', PAUSED, queue, digits(ends)) end
else
  version = 0
  redis.call('HDEL', DOCUMENTS, name)
  redis.call('ZREM', NAMES, name)
  if queue then redis.call('HDEL', PAUSED, queue) end
end
if queue then redis.call('HINCRBY', META, 'pauses', 1) end
note(now)
if ARGV[7] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[7]) end
return { digits(now), version }
