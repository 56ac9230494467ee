-- insert.lua: add new jobs, all of them or, if any of their names is taken, none.
-- KEYS meta ids idem unique body order pending index news
-- WITH clock
-- ARGV told, what to tell those who wait ('' nothing), then of each job: id, idempotency key or '', unique key or '',
--   lane, attempts left, delay, the earliest due time (8 bytes, or ''), the body but for its times, how many indexes
--   name it, and each of those
-- Race: two enqueues with one name -> all names are looked up before the first write.
-- Returns now, or 0 if a name is taken

local now = tell(ARGV[1])
local jobs, ids, keys, uniques = {}, {}, {}, {}
local at = 3
while ARGV[at] do
  local job = { at, tonumber(ARGV[at + 8]) }
  jobs[#jobs + 1] = job
  ids[#ids + 1] = ARGV[at]
  if ARGV[at + 1] ~= '' then keys[#keys + 1] = ARGV[at + 1] end
  if ARGV[at + 2] ~= '' then uniques[#uniques + 1] = ARGV[at + 2] end
  at = at + 9 + job[2]
end

local function is_taken(key, names)
  if #names == 0 then return false end
  for _, found in ipairs(redis.call('HMGET', key, unpack(names))) do
    if found then return true end
  end
  return false
end
if is_taken(IDS, ids) or is_taken(IDEM, keys) or is_taken(UNIQUE, uniques) then return 0 end

local seq = tonumber(redis.call('HGET', META, 'seq') or 0)
local named, keyed, held, bodies, order, pending, index = {}, {}, {}, {}, {}, {}, {}
local created = struct.pack('>I8', now)
for n, job in ipairs(jobs) do
  local arg = job[1]
  local number = seq + n
  local place = struct.pack('>I8', number)
  local due, earliest = now + tonumber(ARGV[arg + 5]), ARGV[arg + 6]
  local due_bytes = struct.pack('>I8', due)
  -- Beyond the year 2255 a number is not exact any more; the bytes are.
  if earliest ~= '' and struct.unpack('>I8', earliest) > due then due_bytes = earliest end
  named[2 * n - 1], named[2 * n] = ARGV[arg], place
  bodies[2 * n - 1], bodies[2 * n] = place, created .. due_bytes .. ARGV[arg + 7]
  order[2 * n - 1], order[2 * n] = number, place
  pending[2 * n - 1], pending[2 * n] = 0, ARGV[arg + 3] .. due_bytes .. place .. ARGV[arg + 4]
  if ARGV[arg + 1] ~= '' then
    keyed[#keyed + 1] = ARGV[arg + 1]
    keyed[#keyed + 1] = place
  end
  if ARGV[arg + 2] ~= '' then
    held[#held + 1] = ARGV[arg + 2]
    held[#held + 1] = place
  end
  for more = 1, job[2] do
    index[#index + 1] = 0
    index[#index + 1] = ARGV[arg + 8 + more] .. place
  end
end
redis.call('HSET', IDS, unpack(named))
redis.call('HSET', BODY, unpack(bodies))
redis.call('ZADD', ORDER, unpack(order))
redis.call('ZADD', PENDING, unpack(pending))
if #keyed > 0 then redis.call('HSET', IDEM, unpack(keyed)) end
if #held > 0 then redis.call('HSET', UNIQUE, unpack(held)) end
for from = 1, #index, 4000 do
  redis.call('ZADD', INDEX, unpack(index, from, math.min(from + 3999, #index)))
end
redis.call('HSET', META, 'seq', seq + #jobs)
note(now)
if ARGV[2] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[2]) end
return digits(now)
