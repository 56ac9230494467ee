-- insert.lua: add new jobs, all of them or, if any of their names is taken, none.
-- KEYS meta ids idem unique body order pending index staged passes news
-- WITH clock passes staged jobs
-- ARGV told, what to tell those who wait ('' nothing), the caller's pass and its number ('' none is needed), the shard's
--   number ('' there is one shard), how many jobs, how many runs of jobs that are alike;
--   those runs; of each job: id, its body but for the times;
--   of each further name: which job, what it is ('k' idempotency key, 'u' unique key, 'i' an index), the name
-- Race: two enqueues with one name -> all names are looked up before the first write.
-- Numbers are given as texts where they can be: the server would write each one out by itself, slowly.
-- Returns now, or 0 if a name is taken, or -1 if the pass is not valid (any more)

local now = tell(ARGV[1])
if not is_valid(ARGV[3], ARGV[4]) then return -1 end
local number, runs = tonumber(ARGV[6]), tonumber(ARGV[7])
local first_job = 8 + RUN * runs
local first_name = first_job + 2 * number

local ids = {}
for n = 1, number do ids[n] = ARGV[first_job + 2 * n - 2] end
local keys, of_keys = names_from(first_name, 'k')
local uniques, of_uniques = names_from(first_name, 'u')
local is_hidden = hidden()
if is_taken(IDS, ids, is_hidden) or is_taken(IDEM, keys, is_hidden) or is_taken(UNIQUE, uniques, is_hidden) then
  return 0
end

local seq, step = tonumber(redis.call('HGET', META, 'seq') or 0), 1
if ARGV[5] ~= '' then
  -- Of several shards each has seqs of its own, all of them near the time, so that jobs of several can be put in order.
  step = 16
  seq = math.max(seq, now - now % step + tonumber(ARGV[5]) - step)
end
local created = struct.pack('>I8', now)
local places, named, bodies, order, pending = {}, {}, {}, {}, {}
each_job(8, runs, now, function(n, due, before, left)
  local place, odd, even = struct.pack('>I8', seq + step * n), 2 * n - 1, 2 * n
  places[n] = place
  named[odd], named[even] = ids[n], place
  bodies[odd], bodies[even] = place, created .. due .. ARGV[first_job + odd]
  order[odd], order[even] = '0', place
  pending[odd], pending[even] = '0', before .. place .. left
end)
redis.call('HSET', IDS, unpack(named))
redis.call('HSET', BODY, unpack(bodies))
redis.call('ZADD', ORDER, unpack(order))
redis.call('ZADD', PENDING, unpack(pending))
put_names(IDEM, keys, of_keys, places)
put_names(UNIQUE, uniques, of_uniques, places)
put_indexes(INDEX, first_name, places)
redis.call('HSET', META, 'seq', digits(seq + step * number))
note(now)
if ARGV[2] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[2]) end
return digits(now)
