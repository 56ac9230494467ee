-- document_page.lua: read documents by name, those of one name or of all names that begin so.
-- KEYS meta documents names
-- WITH clock
-- ARGV told, the lowest name and the highest, each as a range of names by bytes takes it, how many, most bytes
-- Returns the last name looked at ('' if that was all), then name, document of each whose time is not over

local now, most, bytes = tell(ARGV[1]), tonumber(ARGV[5]), 0
local found = redis.call('ZRANGEBYLEX', NAMES, ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local answer = { #found == tonumber(ARGV[4]) and found[#found] or '' }
for _, name in ipairs(found) do
  if bytes > most then break end
  local document = redis.call('HGET', DOCUMENTS, name)
  bytes = bytes + #document
  local ends = struct.unpack('>I8', document, 17)
  if ends == 0 or ends > now then
    answer[#answer + 1] = name
    answer[#answer + 1] = document
  end
  if bytes > most then answer[1] = name end
end
return answer
