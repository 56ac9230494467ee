-- stage_show.lua: show a large group that was put in place, unless one of its names is taken.
-- KEYS meta ids idem unique pending staged news
-- WITH clock staged jobs
-- ARGV told, what to tell those who wait ('' nothing), the group, how many jobs; the jobs' ids; their places among the
--   pending; of each further name: which job, what it is ('k' or 'u'), the name
-- Race: two groups with one id -> it leads to the one that put it first, and is the one's that is shown first.
-- Race: the group was dropped meanwhile -> it is not there any more.
-- Returns 1, or 0 if a name is taken or the group is not there

if not redis.call('ZSCORE', STAGED, ARGV[3]) then return 0 end
local number = tonumber(ARGV[4])
local last_id = 4 + number
local first_name = last_id + number + 1
local keys, of_keys = names_from(first_name, 'k')
local uniques, of_uniques = names_from(first_name, 'u')
local is_hidden = hidden()
if is_taken(IDEM, keys, is_hidden) or is_taken(UNIQUE, uniques, is_hidden) then return 0 end

local now, seq = tell(ARGV[1]), struct.unpack('>I8', ARGV[3]) - 1
local places, named, pending = {}, {}, {}
for n, known in ipairs(redis.call('HMGET', IDS, unpack(ARGV, 5, last_id))) do
  local place = struct.pack('>I8', seq + n)
  places[n] = place
  if known ~= place then
    if shows(known, is_hidden) then return 0 end
    named[#named + 1] = ARGV[4 + n]
    named[#named + 1] = place
  end
  pending[2 * n - 1], pending[2 * n] = '0', ARGV[last_id + n]
end
put('HSET', IDS, named)
redis.call('ZADD', PENDING, unpack(pending))
put_names(IDEM, keys, of_keys, places)
put_names(UNIQUE, uniques, of_uniques, places)
redis.call('ZREM', STAGED, ARGV[3])
note(now)
if ARGV[2] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[2]) end
return 1
