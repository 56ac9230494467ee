-- audit_gone.lua: read what is left of jobs that are gone, oldest first.
-- KEYS ids gone graves staged
-- WITH staged
-- ARGV after which place ('' from the first), how many
-- Returns the last place looked at ('' if that was all), then id, event of each whose id no job has

local found = redis.call('ZRANGEBYLEX', GRAVES, ARGV[1] == '' and '-' or '(' .. ARGV[1], '+', 'LIMIT', 0, ARGV[2])
local is_hidden, answer = hidden(), { #found == tonumber(ARGV[2]) and found[#found] or '' }
for _, place in ipairs(found) do
  local id = string.sub(place, 9)
  local event = redis.call('HGET', GONE, id)
  if event and not shows(redis.call('HGET', IDS, id), is_hidden) then
    answer[#answer + 1] = id
    answer[#answer + 1] = event
  end
end
return answer
