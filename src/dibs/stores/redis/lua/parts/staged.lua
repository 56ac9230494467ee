-- Jobs of a large group that is not whole yet: their bodies are there, their ids, their places in the order and the
-- indexes, and no one may see them. A group is the first and the last of its places; one that is being dropped has an x before that.
-- Needs STAGED, which is empty nearly always.

local function hidden()
  local groups = {}
  for _, group in ipairs(redis.call('ZRANGE', STAGED, 0, -1)) do
    local first, last = struct.unpack('>I8I8', group, #group - 15)
    groups[#groups + 1] = { first, last }
  end
  return function(place)
    if #groups == 0 then return false end
    local seq = struct.unpack('>I8', place)
    for _, group in ipairs(groups) do
      if group[1] <= seq and seq <= group[2] then return true end
    end
    return false
  end
end

-- Whether a place that an id leads to, if any, is that of a job which may be seen.
local function shows(place, is_hidden)
  return place and not is_hidden(place)
end
