-- Lifts one shard's policy epoch to a target; a higher one stays.
-- KEYS  meta.  ARGV  epoch, target.  Answer: what it is now; -1: another epoch.
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'pe')
if meta[1] ~= ARGV[1] then return -1 end
local now = math.max(tonumber(meta[2]), tonumber(ARGV[2]))
-- Written also when it is there already: WAIT counts only this connection's own writes.
redis.call('HSET', KEYS[1], 'pe', now)
return now
