-- Makes one shard a part of an installation, or says why it is none.
-- KEYS  meta.  ARGV  epoch, number of shards, 1 if the installation was complete before.
-- Answer: 1; an epoch or a number of shards: the shard has that one; 0: it was emptied.
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'shards')
if meta[1] and meta[1] ~= ARGV[1] then return meta[1] end
if meta[2] and meta[2] ~= ARGV[2] then return meta[2] end
if not meta[1] and ARGV[3] == '1' then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'shards', ARGV[2])
redis.call('HSETNX', KEYS[1], 'pe', 0)
redis.call('HSETNX', KEYS[1], 'hw', 0)
return 1
