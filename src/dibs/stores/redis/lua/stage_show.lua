-- stage_show.lua: show a large group that was put in place, unless one of its names is taken.
-- KEYS meta ids idem unique pending staged news
-- WITH clock jobs
-- ARGV told, what to tell those who wait ('' nothing), the group and its time, how many jobs, how many runs of jobs that
--   are alike; those runs; the jobs' ids; of each further name: which job, what it is ('k' or 'u'), the name
-- Race: the group was dropped meanwhile -> it is not there any more.
-- Returns 1, or 0 if a name is taken or the group is not there

if not redis.call('ZSCORE', STAGED, ARGV[3]) then return 0 end
local number, runs = tonumber(ARGV[5]), tonumber(ARGV[6])
local first_job = 7 + RUN * runs
local first_name = first_job + number

local ids = {}
for n = 1, number do ids[n] = ARGV[first_job + n - 1] end
local keys, of_keys = names_from(first_name, 'k')
local uniques, of_uniques = names_from(first_name, 'u')
if is_taken(IDS, ids) or is_taken(IDEM, keys) or is_taken(UNIQUE, uniques) then return 0 end

local now, seq = tell(ARGV[1]), struct.unpack('>I8', ARGV[3]) - 1
local places, named, pending = {}, {}, {}
each_job(7, runs, tonumber(ARGV[4]), function(n, _, before, left)
  local place, odd, even = struct.pack('>I8', seq + n), 2 * n - 1, 2 * n
  places[n] = place
  named[odd], named[even] = ids[n], place
  pending[odd], pending[even] = '0', before .. place .. left
end)
redis.call('HSET', IDS, unpack(named))
redis.call('ZADD', PENDING, unpack(pending))
put_names(IDEM, keys, of_keys, places)
put_names(UNIQUE, uniques, of_uniques, places)
redis.call('ZREM', STAGED, ARGV[3])
note(now)
if ARGV[2] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[2]) end
return 1
