-- Commits of one shard, one after the other; each happens whole or not at all.
-- KEYS  meta, timer, feed, then every record, licence and list that the commits name, each once.
-- ARGV  epoch; 1 if an answer must rest on a write of this call; the commits (msgpack); a value each.
-- Answer: the time, then a code and a detail for each commit; a time of -1: another epoch.
local OK, DONE, CONFLICT, POLICY, CLOCK, EARLY, LATE, GONE, FAILED, TORN = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
local call = redis.call

local meta = call('HMGET', KEYS[1], 'epoch', 'hw', 'pe')
if meta[1] ~= ARGV[1] then return {-1} end

local time = call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(clock, tonumber(meta[2]))
local lag = now - clock
local wrote, torn = false, false

-- Seldom enough to cost nothing, often enough that time cannot run back by more.
if now - meta[2] >= 250 then
  call('HSET', KEYS[1], 'hw', now)
  wrote = true
end

-- Was it this operation that moved the record on, or somebody else's?
local function lost(head, op)
  if #head < 8 then return CONFLICT end
  local version = struct.unpack('>I8', head)
  for age = 0, math.min(version, 8) - 1 do
    if string.sub(head, 9 + 8 * age, 16 + 8 * age) == op then return DONE, version - age end
  end
  return CONFLICT
end

local function commit(c, value)
  local record, expected, op, written, ops, member, deadline, retain, guards, lists, licences, feed =
    KEYS[c[1]], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11], c[12]

  local head = call('GETRANGE', record, 0, 71)
  -- After a failover the same version can come again from another operation: both must match.
  local begins = expected ~= '' and string.sub(head, 1, #expected) or head
  if begins ~= expected then return lost(head, op) end
  if guards then
    if guards[1] and guards[1] ~= meta[3] then return POLICY, tonumber(meta[3]) end
    if guards[2] and guards[2] < lag then return CLOCK, lag end
    if guards[3] and now < guards[3] then return EARLY end
    if guards[4] and guards[4] <= now then return LATE end
    for i = 5, #guards do
      if call('EXISTS', KEYS[guards[i]]) == 0 then return GONE, i - 5 end
    end
  end

  -- The timer comes first and the record last: should the server refuse a write between them, the
  -- record is as it was, and a timer entry too many is harmless.
  if deadline then
    call('ZADD', KEYS[2], deadline, member)
  else
    call('ZREM', KEYS[2], member)
  end
  wrote, torn = true, true
  if lists then
    for i = 1, #lists, 3 do
      if lists[i + 2] then
        call('ZADD', KEYS[lists[i]], lists[i + 2], lists[i + 1])
      else
        call('ZREM', KEYS[lists[i]], lists[i + 1])
      end
    end
  end
  if licences then
    for i = 1, #licences, 2 do
      if licences[i + 1] then
        call('SET', KEYS[licences[i]], '1', 'PXAT', licences[i + 1])
      else
        call('DEL', KEYS[licences[i]])
      end
    end
  end
  if feed then
    for i = 1, #feed do
      call('XADD', KEYS[3], 'MAXLEN', '~', '100000', '*', 'j', feed[i])
    end
  end
  local bytes = written .. op .. string.sub(head, 9, 8 + ops) .. value
  if retain then
    call('SET', record, bytes, 'PX', retain)
  else
    call('SET', record, bytes)
  end
  return OK
end

local answers = {now}
local commits = cmsgpack.unpack(ARGV[3])
for i = 1, #commits do
  torn = false
  local ran, code, detail = pcall(commit, commits[i], ARGV[3 + i])
  if not ran then
    detail = type(code) == 'table' and code.err or tostring(code)
    code = torn and TORN or FAILED
  end
  answers[2 * i] = code
  answers[2 * i + 1] = detail or 0
end

-- WAIT counts the replicas that have this connection's last write, and proves nothing without one.
if ARGV[2] == '1' and not wrote then call('HSET', KEYS[1], 'hw', now) end
return answers
