-- Passes: on a cluster, whoever makes a job, or takes a unique key again, has reserved its names elsewhere before. Should
-- someone else take those over meanwhile, the pass is made void here first, up to its number. Needs PASSES.

local function is_valid(pass, number)
  if pass == '' then return true end
  local found = redis.call('HGET', PASSES, pass)
  return found ~= false and tonumber(number) >= struct.unpack('>I6', found, 9)
end
