-- find_few.lua: list all jobs that are in some states, if they are few: then they are sorted rather than sought.
-- KEYS pending leases done
-- ARGV states (a letter each), queue ('' all), how many are few
-- Returns 1 and their seqs, in no order; or 0

local states, queue, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local low, high = '-', '+'
if queue ~= '' then low, high = '[' .. queue .. '\0', '(' .. queue .. '\1' end
local answer = { 1 }

local function is_asked(state)
  return string.find(states, state, 1, true) ~= nil
end

local function add(key, from, upto, first, last)
  if redis.call('ZLEXCOUNT', key, from, upto) + #answer - 1 > most then return false end
  for _, member in ipairs(redis.call('ZRANGEBYLEX', key, from, upto)) do
    answer[#answer + 1] = string.sub(member, first, last)
  end
  return true
end

if is_asked('c') then
  if redis.call('ZCARD', LEASES) > most then return { 0 } end
  for _, member in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do answer[#answer + 1] = string.sub(member, 1, 8) end
end
if is_asked('p') and not add(PENDING, low, high, -11, -4) then return { 0 } end
if is_asked('d') or is_asked('f') or is_asked('x') then
  local from = low
  while true do
    local member = redis.call('ZRANGEBYLEX', DONE, from, high, 'LIMIT', 0, 1)[1]
    if not member then break end
    local name = string.sub(member, 1, -17)
    if is_asked(string.sub(name, -1)) and not add(DONE, '[' .. name, '(' .. name .. '\255', -8, -1) then
      return { 0 }
    end
    from = '(' .. name .. '\255'
  end
end
return answer
