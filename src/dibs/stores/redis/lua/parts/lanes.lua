-- Lanes: the pending jobs of one queue, task and priority stand side by side in one sorted set, by bytes:
--   queue \0 task \0 rank(2) due(8) seq(8) left(3)
-- so a lane is a range, its first job one look-up, and the next lane another, whatever lies in between.
-- Needs PENDING and PAUSED.

local TAIL = 19 -- due, seq and the number of attempts left

local function first(from, upto)
  return redis.call('ZRANGEBYLEX', PENDING, from, upto, 'LIMIT', 0, 1)[1]
end

local function queue_of(member)
  return string.sub(member, 1, string.find(member, '\0', 1, true) - 1)
end

local function lane_of(member)
  return string.sub(member, 1, -TAIL - 1)
end

local function rank_of(member)
  return struct.unpack('>I2', member, #member - TAIL - 1)
end

-- due (as a number), seq, left
local function tail_of(member)
  return struct.unpack('>I8I8I3', member, #member - TAIL + 1)
end

local function paused_at(now)
  local paused, found = {}, redis.call('HGETALL', PAUSED)
  for at = 1, #found, 2 do
    local ends = tonumber(found[at + 1])
    if ends == 0 or ends > now then paused[found[at]] = true end
  end
  return paused
end

local function lanes_between(from, upto, paused, visit)
  local member = first(from, upto)
  while member do
    local queue = queue_of(member)
    if paused[queue] then
      from = '[' .. queue .. '\1'
    else
      local lane = lane_of(member)
      visit(lane, member)
      from = '(' .. lane .. '\255'
    end
    member = first(from, upto)
  end
end

local MANY = 16 -- tasks that are looked up one by one; more than that are sought among all lanes of their queue

local function lanes_of(queue, tasks, paused, visit)
  local some = visit
  if tasks and #tasks > MANY then
    local asked, from = {}, #queue + 2
    for _, task in ipairs(tasks) do asked[task] = true end
    some = function(lane, member)
      if asked[string.sub(lane, from, -4)] then visit(lane, member) end
    end
  end
  if not tasks or #tasks > MANY then
    return lanes_between('[' .. queue .. '\0', '(' .. queue .. '\1', paused, some)
  end
  for _, task in ipairs(tasks) do
    local name = queue .. '\0' .. task
    lanes_between('[' .. name .. '\0', '(' .. name .. '\1', paused, visit)
  end
end

-- Visit every lane that is asked for with its first job; queues and tasks are lists, or nil for all.
local function each_lane(queues, tasks, paused, visit)
  if queues then
    for _, queue in ipairs(queues) do
      if not paused[queue] then lanes_of(queue, tasks, paused, visit) end
    end
  elseif not tasks then
    lanes_between('-', '+', paused, visit)
  else
    local member = first('-', '+')
    while member do
      local queue = queue_of(member)
      if not paused[queue] then lanes_of(queue, tasks, paused, visit) end
      member = first('[' .. queue .. '\1', '+')
    end
  end
end

-- A list of names in ARGV: how many ('' for all), then each. Gives it, and where to read on.
local function names_at(at)
  local number = tonumber(ARGV[at])
  if not number then return nil, at + 1 end
  local names = {}
  for n = 1, number do names[n] = ARGV[at + n] end
  return names, at + number + 1
end
