-- New jobs, as ARGV tells of them: runs of jobs that are alike, and names. No command is given more words than Lua can
-- pass on. Needs `staged`.

local RUN = 5 -- words: lane, attempts left, delay, the earliest due time (8 bytes, or ''), how many jobs

-- Visit each job with its number, its due time, and what its place among the pending begins and ends with.
local function each_job(from, runs, now, visit)
  local n = 0
  for run = 1, runs do
    local at = from + RUN * (run - 1)
    local due, earliest = now + tonumber(ARGV[at + 2]), ARGV[at + 3]
    local due_bytes = struct.pack('>I8', due)
    -- Beyond the year 2255 a number is not exact any more; the bytes are.
    if earliest ~= '' and struct.unpack('>I8', earliest) > due then due_bytes = earliest end
    local before, left = ARGV[at] .. due_bytes, ARGV[at + 1]
    for _ = 1, tonumber(ARGV[at + 4]) do
      n = n + 1
      visit(n, due_bytes, before, left)
    end
  end
end

-- The names of a kind, from one word on to the last: which job, what it is, the name; and the jobs that they are of.
local function names_from(at, kind)
  local names, jobs = {}, {}
  for word = at, #ARGV, 3 do
    if ARGV[word + 1] == kind then
      names[#names + 1] = ARGV[word + 2]
      jobs[#names] = tonumber(ARGV[word])
    end
  end
  return names, jobs
end

local function is_taken(key, names, is_hidden)
  if #names == 0 then return false end
  for _, found in ipairs(redis.call('HMGET', key, unpack(names))) do
    if shows(found, is_hidden) then return true end
  end
  return false
end

local function put(command, key, words)
  for from = 1, #words, 4000 do
    redis.call(command, key, unpack(words, from, math.min(from + 3999, #words)))
  end
end

local function put_names(key, names, jobs, places)
  local words = {}
  for n, name in ipairs(names) do words[2 * n - 1], words[2 * n] = name, places[jobs[n]] end
  put('HSET', key, words)
end

local function put_indexes(key, at, places)
  local names, jobs = names_from(at, 'i')
  local words = {}
  for n, name in ipairs(names) do words[2 * n - 1], words[2 * n] = '0', name .. places[jobs[n]] end
  put('ZADD', key, words)
end
