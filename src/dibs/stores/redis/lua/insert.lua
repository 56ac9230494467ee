-- insert.lua: add new jobs, all of them or, if any of their names is taken, none.
-- KEYS meta ids idem unique body order pending index news
-- WITH clock
-- ARGV told, what to tell those who wait ('' nothing), how many sorts of jobs, how many jobs;
--   of each sort: lane, attempts left, delay, the earliest due time (8 bytes, or '');
--   of each job: id, the number of its sort, its body but for the times;
--   of each further name: which job, what it is ('k' idempotency key, 'u' unique key, 'i' an index), the name
-- Race: two enqueues with one name -> all names are looked up before the first write.
-- Numbers are given as texts where they can be: the server would write each one out by itself, slowly.
-- Returns now, or 0 if a name is taken

local now = tell(ARGV[1])
local sorts, number = tonumber(ARGV[3]), tonumber(ARGV[4])
local first_job = 5 + 4 * sorts
local first_name = first_job + 3 * number

local ids, keys, uniques = {}, {}, {}
for n = 1, number do ids[n] = ARGV[first_job + 3 * (n - 1)] end
for at = first_name, #ARGV, 3 do
  if ARGV[at + 1] == 'k' then keys[#keys + 1] = ARGV[at + 2] end
  if ARGV[at + 1] == 'u' then uniques[#uniques + 1] = ARGV[at + 2] end
end

local function is_taken(key, names)
  if #names == 0 then return false end
  for _, found in ipairs(redis.call('HMGET', key, unpack(names))) do
    if found then return true end
  end
  return false
end
if is_taken(IDS, ids) or is_taken(IDEM, keys) or is_taken(UNIQUE, uniques) then return 0 end

local heads, before, after = {}, {}, {}
local created = struct.pack('>I8', now)
for n = 1, sorts do
  local at = 5 + 4 * (n - 1)
  local due, earliest = now + tonumber(ARGV[at + 2]), ARGV[at + 3]
  local due_bytes = struct.pack('>I8', due)
  -- Beyond the year 2255 a number is not exact any more; the bytes are.
  if earliest ~= '' and struct.unpack('>I8', earliest) > due then due_bytes = earliest end
  heads[n] = created .. due_bytes
  before[n], after[n] = ARGV[at] .. due_bytes, ARGV[at + 1]
end

local seq = tonumber(redis.call('HGET', META, 'seq') or 0)
local places, named, bodies, order, pending = {}, {}, {}, {}, {}
for n = 1, number do
  local at = first_job + 3 * (n - 1)
  local sort, place = tonumber(ARGV[at + 1]), struct.pack('>I8', seq + n)
  places[n] = place
  named[2 * n - 1], named[2 * n] = ids[n], place
  bodies[2 * n - 1], bodies[2 * n] = place, heads[sort] .. ARGV[at + 2]
  order[2 * n - 1], order[2 * n] = '0', place
  pending[2 * n - 1], pending[2 * n] = '0', before[sort] .. place .. after[sort]
end
redis.call('HSET', IDS, unpack(named))
redis.call('HSET', BODY, unpack(bodies))
redis.call('ZADD', ORDER, unpack(order))
redis.call('ZADD', PENDING, unpack(pending))
for at = first_name, #ARGV, 3 do
  local place, what, name = places[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2]
  if what == 'k' then
    redis.call('HSET', IDEM, name, place)
  elseif what == 'u' then
    redis.call('HSET', UNIQUE, name, place)
  else
    redis.call('ZADD', INDEX, '0', name .. place)
  end
end
redis.call('HSET', META, 'seq', digits(seq + number))
note(now)
if ARGV[2] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[2]) end
return digits(now)
