-- The time: the server's own unless it is told one, and never before the last change of the shard.
-- Needs META. Every script that changes anything ends with `note`.

local function tell(told)
  local last = tonumber(redis.call('HGET', META, 'time') or 0)
  local now = tonumber(told)
  if not now then
    local at = redis.call('TIME')
    now = at[1] * 1000000 + at[2]
  end
  return now < last and last or now
end

local function digits(number)
  return string.format('%.0f', number)
end

local function note(now)
  redis.call('HSET', META, 'time', digits(now))
end
