-- Leasing: what a claim makes of jobs that it has picked. Needs META, PENDING, BODY, STATE, LEASES and EVENTS.
-- A job that was never claimed has no state yet: its body says it all.

local STATE_FIXED = '>c1c1I4I4I4c8I8I8I8I8I8I8I8I2I2I2I2I1I2I4'
local MOST_BYTES = 2097152 -- of params in one go; what is beyond that is left for the next

local function read_bodies(seqs)
  local bodies, bytes = {}, 0
  for from = 1, #seqs, 25 do
    if bytes > MOST_BYTES then break end
    local upto = math.min(from + 24, #seqs)
    local found = redis.call('HMGET', BODY, unpack(seqs, from, upto))
    for at = 1, #found do
      bodies[from + at - 1] = found[at]
      bytes = bytes + #(found[at] or '')
    end
  end
  return bodies
end

-- What of the state outlives a claim: fence, attempts, events, due, keep, and strings with their lengths.
local function before(state)
  local _, _, fence, attempts, events, due, _, _, _, _, _, _, keep, worker, token, queue, unique, progress, said,
    failed = struct.unpack(STATE_FIXED, state)
  local names = string.sub(state, 94, 93 + queue + unique)
  local rest = string.sub(state, 94 + queue + unique + worker + token)
  return fence, attempts, events, due, keep, queue, unique, names, progress, said, failed, rest
end

-- The unique key of a body: most have none.
local function unique_of(body)
  if string.sub(body, 47, 48) == '\0\0' then return '' end
  local id, queue, task, key, unique = struct.unpack('>I2I2I2I2I2', body, 39)
  local from = 53 + id + queue + task + key
  return string.sub(body, from, from + unique - 1)
end

-- What all leases of one taker and length have in common, as bytes.
local function terms_of(taker, length, now)
  local worker, token = taker[1], taker[2]
  local ends = struct.pack('>I8', now + length)
  local times = struct.pack('>I8I8', now, now)
  return {
    score = digits(now + length),
    times = times .. ends .. struct.pack('>I8I8I8', length, 0, 0),
    lengths = struct.pack('>I2I2', #worker, #token),
    names = worker .. token,
    logged = ends .. struct.pack('>I8I2I2', now, #worker, 0) .. worker,
  }
end

-- A first claim, which nearly all are, copies bytes and decodes nothing: fence 1, no attempts yet, the second event.
local FIRST_STATE = struct.pack('>c1c1I4I4I4', 'c', '-', 1, 0, 2)
local FIRST_EVENT = struct.pack('>c1c1c1I4I4', 'C', 'p', 'c', 1, 0)
local SECOND = struct.pack('>I4', 2)
local NOTHING = string.rep('\0', 7) -- no progress, no note, no error

local function first_claim(body, queue, terms)
  local due = string.sub(body, 9, 16)
  local state = FIRST_STATE .. due .. terms.times .. string.sub(body, 25, 32) .. terms.lengths
    .. string.sub(body, 41, 42) .. string.sub(body, 47, 48) .. NOTHING .. queue .. unique_of(body) .. terms.names
  return state, SECOND, FIRST_EVENT .. due .. terms.logged
end

local function later_claim(state, taker, length, now, terms)
  local worker, token = taker[1], taker[2]
  local fence, attempts, events, due, keep, queue, unique, names, progress, said, failed, rest = before(state)
  local after = struct.pack(STATE_FIXED, 'c', '-', fence + 1, attempts, events + 1, due, now, now, now + length, length,
    0, 0, keep, #worker, #token, queue, unique, progress, said, failed) .. names .. worker .. token .. rest
  return after, struct.pack('>I4', events + 1),
    struct.pack('>c1c1c1I4I4', 'C', 'p', 'c', fence + 1, attempts) .. due .. terms.logged
end

-- Lease the picked members to takers, a list of {worker, token, lease or 0, how many}, in order.
-- Gives bodies and new states, one after the other, and how many were too many bytes to be taken along.
local function lease(picked, takers, now)
  local seqs = {}
  for at, member in ipairs(picked) do seqs[at] = string.sub(member, -11, -4) end
  local bodies = read_bodies(seqs)
  local number = #bodies
  if number == 0 then return {}, #picked end
  local states = redis.call('HMGET', STATE, unpack(seqs, 1, number))
  local answer, removed, leased, put, logged = {}, {}, {}, {}, {}
  local who, left, known = 1, takers[1][4], {}
  for at = 1, number do
    local body, member, seq = bodies[at], picked[at], seqs[at]
    while left == 0 do
      who, known = who + 1, {}
      left = takers[who][4]
    end
    left = left - 1
    local taker = takers[who]
    local length = taker[3] > 0 and taker[3] or struct.unpack('>I8', body, 17)
    local terms = known[length]
    if not terms then
      terms = terms_of(taker, length, now)
      known[length] = terms
    end
    local queue, state, event, entry = queue_of(member), states[at], nil, nil
    if state then
      state, event, entry = later_claim(state, taker, length, now, terms)
    else
      state, event, entry = first_claim(body, queue, terms)
    end
    local odd, even = 2 * at - 1, 2 * at
    removed[at] = member
    leased[odd], leased[even] = terms.score, seq .. queue
    put[odd], put[even] = seq, state
    logged[odd], logged[even] = seq .. event, entry
    answer[odd], answer[even] = body, state
  end
  redis.call('ZREM', PENDING, unpack(removed))
  redis.call('ZADD', LEASES, unpack(leased))
  redis.call('HSET', STATE, unpack(put))
  redis.call('HSET', EVENTS, unpack(logged))
  note(now)
  return answer, #picked - number
end
