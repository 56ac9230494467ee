-- The time by the server's own clock, eight bytes: of reservations, whose age matters to real processes alone.

local function moment()
  local at = redis.call('TIME')
  return struct.pack('>I8', at[1] * 1000000 + at[2])
end
