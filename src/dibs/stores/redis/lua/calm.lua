-- calm.lua: note that no lease has run out, for so long; or say how long that is still believed.
-- KEYS calm
-- ARGV milliseconds ('' only to ask)
-- Returns milliseconds; 0 or less if someone has to look

if ARGV[1] ~= '' then redis.call('SET', CALM, '', 'PX', ARGV[1]) end
return redis.call('PTTL', CALM)
