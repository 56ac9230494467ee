-- The time: the server's own unless it is told one, and never before the last change of the shard.
-- Needs META. A time that is no number is the mark of a later layout, which these scripts must not touch: a later dibs sets
-- it so, and keeps its time elsewhere. They fail then, before they have written anything.
-- Every script that changes anything ends with `note`.

local function tell(told)
  local last = tonumber(redis.call('HGET', META, 'time') or 0)
  if not last then error({err = 'LATER the keys are laid out by a later dibs'}) end
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
