-- restore.lua: put down jobs as another store has them, with their logs; all of them or, if any of their names is taken, none.
-- KEYS meta ids idem unique body state order pending done index events staged passes news
-- WITH clock passes staged jobs
-- ARGV told, what to tell those who wait ('' nothing), the caller's pass and its number ('' none is needed), the shard's
--   number ('' there is one shard), the time of the last thing that happened to any of them, how many jobs;
--   of each job: id, body, state ('' none), 'p' if it is pending or 'd' if it has ended, what its place there begins and
--   ends with, how many events follow and those, how many names follow and of each what it is ('k' idempotency key, 'u'
--   unique key, 'i' an index) and the name
-- Race: two who bring one name -> all names are looked up before the first write.
-- Returns now, or 0 if a name is taken, or -1 if the pass is not valid (any more)

local now = math.max(tell(ARGV[1]), tonumber(ARGV[6]))
if not is_valid(ARGV[3], ARGV[4]) then return -1 end
local number, at = tonumber(ARGV[7]), 8

local jobs, ids, named = {}, {}, { k = {}, u = {} }
for n = 1, number do
  local job = { id = ARGV[at], body = ARGV[at + 1], state = ARGV[at + 2], is = ARGV[at + 3], before = ARGV[at + 4],
    after = ARGV[at + 5], events = at + 6, names = at + 7 + tonumber(ARGV[at + 6]) }
  at = job.names + 1 + 2 * tonumber(ARGV[job.names])
  for name = job.names + 1, at - 1, 2 do
    local some = named[ARGV[name]]
    if some then some[#some + 1] = ARGV[name + 1] end
  end
  jobs[n], ids[n] = job, job.id
end
local is_hidden = hidden()
if is_taken(IDS, ids, is_hidden) or is_taken(IDEM, named.k, is_hidden) or is_taken(UNIQUE, named.u, is_hidden) then
  return 0
end

local seq, step = tonumber(redis.call('HGET', META, 'seq') or 0), 1
if ARGV[5] ~= '' then -- as in insert.lua
  step = 16
  seq = math.max(seq, now - now % step + tonumber(ARGV[5]) - step)
end
for _, job in ipairs(jobs) do
  seq = seq + step
  local place = struct.pack('>I8', seq)
  redis.call('HSET', IDS, job.id, place)
  redis.call('HSET', BODY, place, job.body)
  if job.state ~= '' then redis.call('HSET', STATE, place, job.state) end
  redis.call('ZADD', ORDER, 0, place)
  if job.is == 'p' then
    redis.call('ZADD', PENDING, 0, job.before .. place .. job.after)
  else
    redis.call('ZADD', DONE, 0, job.before .. place .. job.after)
  end
  local words = {}
  for n = 1, tonumber(ARGV[job.events]) do
    words[2 * n - 1], words[2 * n] = place .. struct.pack('>I4', n + 1), ARGV[job.events + n]
  end
  put('HSET', EVENTS, words)
  for name = job.names + 1, job.names + 2 * tonumber(ARGV[job.names]), 2 do
    local kind, called = ARGV[name], ARGV[name + 1]
    if kind == 'k' then
      redis.call('HSET', IDEM, called, place)
    elseif kind == 'u' then
      redis.call('HSET', UNIQUE, called, place)
    else
      redis.call('ZADD', INDEX, 0, called .. place)
    end
  end
end
redis.call('HSET', META, 'seq', digits(seq))
note(now)
if ARGV[2] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[2]) end
return digits(now)
