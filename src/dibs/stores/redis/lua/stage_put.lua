-- stage_put.lua: put some jobs of a large group where no one sees them; the first call finds room for all.
-- KEYS meta ids body order index staged
-- WITH clock staged jobs
-- ARGV told, the group and its time ('' it is begun here), how many jobs it has, how many of them were put before,
--   how many runs of jobs that are alike; those runs; of each job: id, its body but for the times;
--   of each index that a job is in: which job, 'i', the name
-- Race: another job has an id, or is about to have it -> that is left as it is, and seen to when the group is shown.
-- Race: a caller who stalled, and whose group was dropped meanwhile -> it is not there any more.
-- Returns the group and its time, or nothing if it is not there

local group, now = ARGV[2], tonumber(ARGV[3])
local runs = tonumber(ARGV[6])
local number, first_job = 0, 7 + RUN * runs
for run = 1, runs do number = number + tonumber(ARGV[6 + RUN * run]) end
if group == '' then
  now = tell(ARGV[1])
  local seq = tonumber(redis.call('HGET', META, 'seq') or 0)
  local last = seq + tonumber(ARGV[4])
  group = struct.pack('>I8I8', seq + 1, last)
  redis.call('HSET', META, 'seq', digits(last))
  redis.call('ZADD', STAGED, digits(now), group)
  note(now)
elseif not redis.call('ZSCORE', STAGED, group) then
  return {}
end

local seq, created = struct.unpack('>I8', group) - 1 + tonumber(ARGV[5]), struct.pack('>I8', now)
local ids, places, bodies, order = {}, {}, {}, {}
each_job(7, runs, now, function(n, due)
  local place, odd, even = struct.pack('>I8', seq + n), 2 * n - 1, 2 * n
  places[n] = place
  ids[n] = ARGV[first_job + odd - 1]
  bodies[odd], bodies[even] = place, created .. due .. ARGV[first_job + odd]
  order[odd], order[even] = '0', place
end)
local named = {}
for n, known in ipairs(redis.call('HMGET', IDS, unpack(ids))) do
  if not known then
    named[#named + 1] = ids[n]
    named[#named + 1] = places[n]
  end
end
put('HSET', IDS, named)
redis.call('HSET', BODY, unpack(bodies))
redis.call('ZADD', ORDER, unpack(order))
put_indexes(INDEX, first_job + 2 * number, places)
return { group, digits(now) }
