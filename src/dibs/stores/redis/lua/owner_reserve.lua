-- owner_reserve.lua: reserve names for jobs that are about to be made; names that someone has already are left alone.
-- KEYS owners
-- WITH moment
-- ARGV name, what it is reserved for of each; no name twice
-- Race: two callers, one name -> one script at a time, and the second one sees the first one's.
-- Returns the time, then for each '' (reserved now) or who has it

local date, names = moment(), {}
for at = 1, #ARGV, 2 do names[#names + 1] = ARGV[at] end
local answer, put = redis.call('HMGET', OWNERS, unpack(names)), {}
for at, owner in ipairs(answer) do
  if not owner then
    answer[at] = ''
    put[#put + 1] = names[at]
    put[#put + 1] = date .. ARGV[2 * at]
  end
end
if #put > 0 then redis.call('HSET', OWNERS, unpack(put)) end
table.insert(answer, 1, date)
return answer
