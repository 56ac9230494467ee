-- insert.lua: add new jobs, all of them or, if any of their names is taken, none.
-- KEYS meta ids idem unique body order pending index passes news
-- WITH clock passes
-- ARGV told, what to tell those who wait ('' nothing), the caller's pass and its number ('' none is needed), the shard's
--   number ('' there is one shard), how many jobs, how many runs of jobs that are alike;
--   of each run: lane, attempts left, delay, the earliest due time (8 bytes, or ''), how many jobs;
--   of each job: id, its body but for the times;
--   of each further name: which job, what it is ('k' idempotency key, 'u' unique key, 'i' an index), the name
-- Race: two enqueues with one name -> all names are looked up before the first write.
-- Numbers are given as texts where they can be: the server would write each one out by itself, slowly.
-- Returns now, or 0 if a name is taken, or -1 if the pass is not valid (any more)

local now = tell(ARGV[1])
if not is_valid(ARGV[3], ARGV[4]) then return -1 end
local number, runs = tonumber(ARGV[6]), tonumber(ARGV[7])
local first_job = 8 + 5 * runs
local first_name = first_job + 2 * number

local ids, keys, uniques = {}, {}, {}
for n = 1, number do ids[n] = ARGV[first_job + 2 * n - 2] end
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

local seq, step = tonumber(redis.call('HGET', META, 'seq') or 0), 1
if ARGV[5] ~= '' then
  -- Of several shards each has seqs of its own, all of them near the time, so that jobs of several can be put in order.
  step = 16
  seq = math.max(seq, now - now % step + tonumber(ARGV[5]) - step)
end
local created = struct.pack('>I8', now)
local places, named, bodies, order, pending = {}, {}, {}, {}, {}
local n = 0
for run = 1, runs do
  local at = 3 + 5 * run
  local left, due, earliest = ARGV[at + 1], now + tonumber(ARGV[at + 2]), ARGV[at + 3]
  local due_bytes = struct.pack('>I8', due)
  -- Beyond the year 2255 a number is not exact any more; the bytes are.
  if earliest ~= '' and struct.unpack('>I8', earliest) > due then due_bytes = earliest end
  local head, before = created .. due_bytes, ARGV[at] .. due_bytes
  for _ = 1, tonumber(ARGV[at + 4]) do
    n = n + 1
    local place, odd, even = struct.pack('>I8', seq + step * n), 2 * n - 1, 2 * n
    places[n] = place
    named[odd], named[even] = ids[n], place
    bodies[odd], bodies[even] = place, head .. ARGV[first_job + odd]
    order[odd], order[even] = '0', place
    pending[odd], pending[even] = '0', before .. place .. left
  end
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
redis.call('HSET', META, 'seq', digits(seq + step * number))
note(now)
if ARGV[2] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[2]) end
return digits(now)
