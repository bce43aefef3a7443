-- Keeps a blob for at least so many milliseconds; one that is there already is only prolonged.
-- KEYS  meta, the blob.  ARGV  epoch, milliseconds, bytes.  Answer: 1; -1: another epoch.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return -1 end
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('PEXPIRE', KEYS[2], ARGV[2], 'GT')
else
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])
end
return 1
