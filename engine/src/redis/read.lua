-- One reading command on one key, with the store's time.
-- KEYS  meta, the key.  ARGV  epoch, the command, its arguments after the key.
-- Answer: the time and the command's reply; a time of -1: another epoch.
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'hw')
if meta[1] ~= ARGV[1] then return {-1} end
local time = redis.call('TIME')
local now = math.max(time[1] * 1000 + math.floor(time[2] / 1000), tonumber(meta[2]))
return {now, redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))}
