-- write.lua: put down what was decided about jobs, each if it is still as it was when that was decided.
-- KEYS meta ids idem body state order pending leases done unique index events gone graves passes news
-- WITH clock passes
-- ARGV when it was decided, what to tell those who wait ('' nothing), the caller's pass and its number ('' none is
--   needed), then 16 for each job, no job twice:
--   seq, the state it had ('' none), the state it gets ('' it goes), its old and new place among the pending, its queue
--   if it is leased no more, its old and new place among the finished, its unique key, whether that is taken ('t'),
--   let go ('l') or neither, the number of its event, the event; and if it goes: id, idempotency key, how many events it
--   has, and its places in indexes (each with its length in two bytes), the event being what is left of it
-- Race: changed since it was read -> the whole state is compared, byte for byte. A unique key that is taken is looked up
--   again, in the order of the writes: one that is let go is free for those after it. And whoever takes one shows a pass.
-- Returns 1 (done), 0 (it has changed: judge again) or 2 (another unfinished job has its unique key) for each

local WIDTH = 16
local now = tell(ARGV[1])
local FIRST = 5
local number = (#ARGV - FIRST + 1) / WIDTH
local seqs, keys, answer, lets_go = {}, {}, {}, {}
for n = 1, number do
  local at = FIRST + WIDTH * (n - 1)
  seqs[n] = ARGV[at]
  keys[n] = ARGV[at + 8]
end
local states = redis.call('HMGET', STATE, unpack(seqs))
local bodies = {}
for n = 1, number do bodies[n] = redis.call('HEXISTS', BODY, seqs[n]) == 1 end
local found, holders = redis.call('HMGET', UNIQUE, unpack(keys)), {}
for n = 1, number do holders[keys[n]] = found[n] end
local passes = is_valid(ARGV[3], ARGV[4])

for n = 1, number do
  local at = FIRST + WIDTH * (n - 1)
  local seq, key, does = seqs[n], keys[n], ARGV[at + 9]
  if not bodies[n] or (states[n] or '') ~= ARGV[at + 1] or (does == 't' and not passes) then
    answer[n] = 0
  elseif does == 't' and holders[key] and holders[key] ~= seq then
    answer[n] = 2
  else
    answer[n] = 1
    if does == 't' then holders[key] = seq end
    if does == 'l' and holders[key] == seq then
      holders[key] = false
      lets_go[n] = true
    end
  end
end

-- Graves of earlier jobs with these ids are looked up before the first write, too.
local buried = {}
for n = 1, number do
  local at = FIRST + WIDTH * (n - 1)
  if answer[n] == 1 and ARGV[at + 2] == '' then buried[n] = redis.call('HGET', GONE, ARGV[at + 12]) end
end

local function remove(n, at)
  local seq, id, key = seqs[n], ARGV[at + 12], ARGV[at + 13]
  redis.call('HDEL', BODY, seq)
  redis.call('HDEL', STATE, seq)
  redis.call('HDEL', IDS, id)
  redis.call('ZREM', ORDER, seq)
  if key ~= '' then redis.call('HDEL', IDEM, key) end
  local events = tonumber(ARGV[at + 14])
  for from = 2, events, 1000 do
    local fields = {}
    for event = from, math.min(from + 999, events) do fields[#fields + 1] = seq .. struct.pack('>I4', event) end
    redis.call('HDEL', EVENTS, unpack(fields))
  end
  local places, from = ARGV[at + 15], 1
  while from <= #places do
    local length = struct.unpack('>I2', places, from)
    redis.call('ZREM', INDEX, string.sub(places, from + 2, from + 1 + length) .. seq)
    from = from + 2 + length
  end
  if buried[n] then redis.call('ZREM', GRAVES, string.sub(buried[n], 1, 8) .. id) end
  local left = ARGV[at + 11]
  redis.call('HSET', GONE, id, left)
  redis.call('ZADD', GRAVES, 0, string.sub(left, 1, 8) .. id)
end

-- A job that takes a key is dated when it does so, not when that was decided: the last holder may have ended since,
-- and the log must not say that both had it at once (test_a_redrive_is_dated_when_it_takes_its_key).
local date = struct.pack('>I8', now)

local function dated(state, place, event)
  return string.sub(state, 1, 14) .. date .. date .. string.sub(state, 31),
    string.sub(place, 1, -20) .. date .. string.sub(place, -11),
    string.sub(event, 1, 11) .. date .. string.sub(event, 20, 27) .. date .. string.sub(event, 36)
end

local any = false
for n = 1, number do
  local at = FIRST + WIDTH * (n - 1)
  if answer[n] == 1 then
    any = true
    local seq = seqs[n]
    if ARGV[at + 3] ~= '' then redis.call('ZREM', PENDING, ARGV[at + 3]) end
    if ARGV[at + 5] ~= '' then redis.call('ZREM', LEASES, seq .. ARGV[at + 5]) end
    if ARGV[at + 6] ~= '' then redis.call('ZREM', DONE, ARGV[at + 6]) end
    if ARGV[at + 2] == '' then
      remove(n, at)
    else
      local state, place, event = ARGV[at + 2], ARGV[at + 4], ARGV[at + 11]
      if ARGV[at + 9] == 't' then state, place, event = dated(state, place, event) end
      redis.call('HSET', STATE, seq, state)
      redis.call('HSET', EVENTS, seq .. ARGV[at + 10], event)
      if place ~= '' then redis.call('ZADD', PENDING, 0, place) end
      if ARGV[at + 7] ~= '' then redis.call('ZADD', DONE, 0, ARGV[at + 7]) end
    end
    if ARGV[at + 9] == 't' then redis.call('HSET', UNIQUE, keys[n], seq) end
    if lets_go[n] then redis.call('HDEL', UNIQUE, keys[n]) end
  end
end
if any then
  note(now)
  if ARGV[2] ~= '' then redis.call('SPUBLISH', NEWS, ARGV[2]) end
end
return answer
