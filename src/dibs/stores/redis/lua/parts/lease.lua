-- Leasing: what a claim makes of jobs that it has picked. Needs META, PENDING, BODY, STATE, LEASES and EVENTS.
-- A job that was never claimed has no state yet: its body says it all.

local STATE_FIXED = '>c1c1I4I4I4c8I8I8I8I8I8I8I8I2I2I2I2I1I2I4'
local EVENT_FIXED = '>c1c1c1I4I4c8I8I8I2I2'
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
local function before(state, body, member)
  if state then
    local _, _, fence, attempts, events, due, _, _, _, _, _, _, keep, worker, token, queue, unique, progress, said,
      failed = struct.unpack(STATE_FIXED, state)
    local names = string.sub(state, 94, 93 + queue + unique)
    local rest = string.sub(state, 94 + queue + unique + worker + token)
    return fence, attempts, events, due, keep, queue, unique, names, progress, said, failed, rest
  end
  local _, due, _, keep, _, _, id, queue, task, key, unique = struct.unpack('>c8c8I8I8I4i2I2I2I2I2I2', body)
  local from = 53 + id + queue + task + key
  local names = queue_of(member) .. string.sub(body, from, from + unique - 1)
  return 0, 0, 1, due, keep, queue, unique, names, 0, 0, 0, ''
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
  local who, left = 1, takers[1][4]
  local written = {} -- lease ends as digits: most are alike
  for at = 1, number do
    local body, member, seq = bodies[at], picked[at], seqs[at]
    while left == 0 do
      who = who + 1
      left = takers[who][4]
    end
    left = left - 1
    local worker, token, asked = takers[who][1], takers[who][2], takers[who][3]
    local fence, attempts, events, due, keep, queue, unique, names, progress, said, failed, rest =
      before(states[at], body, member)
    local length = asked > 0 and asked or struct.unpack('>I8', body, 17)
    local ends = now + length
    local state = struct.pack(STATE_FIXED, 'c', '-', fence + 1, attempts, events + 1, due, now, now, ends, length, 0,
      0, keep, #worker, #token, queue, unique, progress, said, failed) .. names .. worker .. token .. rest
    removed[at] = member
    if not written[ends] then written[ends] = digits(ends) end
    leased[2 * at - 1], leased[2 * at] = written[ends], seq .. queue_of(member)
    put[2 * at - 1], put[2 * at] = seq, state
    logged[2 * at - 1] = seq .. struct.pack('>I4', events + 1)
    logged[2 * at] = struct.pack(EVENT_FIXED, 'C', 'p', 'c', fence + 1, attempts, due, ends, now, #worker, 0) .. worker
    answer[2 * at - 1], answer[2 * at] = body, state
  end
  redis.call('ZREM', PENDING, unpack(removed))
  redis.call('ZADD', LEASES, unpack(leased))
  redis.call('HSET', STATE, unpack(put))
  redis.call('HSET', EVENTS, unpack(logged))
  note(now)
  return answer, #picked - number
end
