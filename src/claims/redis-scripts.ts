/**
 * The calls as Lua scripts, each one atomic step. All keys have one hash tag, so a cluster keeps
 * them in one slot.
 *
 * KEYS[1] is the beginning of all keys. `job:<key>` is a hash; `names` a sorted set of all keys in
 * their order; `pending` one of what waits, by number of arrival; `leases` one of the times that
 * end. Tokens are from the time in microseconds, so below 2^53 until the year 2255.
 */

const PRELUDE = `
local at = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function job(key) return at .. 'job:' .. key end
local function whole(n) return string.format('%.0f', n) end
local function row(key)
  local flat = redis.call('HGETALL', job(key))
  local fields = {}
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  return flat[1] and fields or nil
end
local function told(key, fields)
  return { key, fields.state, fields.owner or false, fields.holder or false, fields.token or false,
    fields['until'] and whole(math.max(0, fields['until'] - now)) or false,
    fields.reason or false, fields.body or false }
end
local function take(key, fields, owner, holder, lease)
  local token = clock[1] * 1000000 + clock[2]
  if fields and fields.token and fields.token + 1 > token then token = fields.token + 1 end
  redis.call('HSET', job(key), 'state', 'running', 'owner', owner, 'holder', holder,
    'token', whole(token))
  redis.call('ZADD', at .. 'names', 0, key)
  redis.call('ZREM', at .. 'pending', key)
  if lease == '' then
    redis.call('HDEL', job(key), 'until')
    redis.call('ZREM', at .. 'leases', key)
  else
    local ends = whole(now + lease)
    redis.call('HSET', job(key), 'until', ends)
    redis.call('ZADD', at .. 'leases', ends, key)
  end
  return { key, whole(token), redis.call('HGET', job(key), 'body') }
end
`;

/** Arguments: key, owner, holder, lease in ms or nothing. Answers key, token, body; or nil. */
export const CLAIM: string = `${PRELUDE}
local fields = row(ARGV[1])
if fields and fields.state ~= 'pending' then
  if fields.state ~= 'running' or not fields['until'] then return false end
  if tonumber(fields['until']) > now then return false end
end
return take(ARGV[1], fields, ARGV[2], ARGV[3], ARGV[4])`;

/** Arguments: owner, holder, lease. Answers as {@link CLAIM}. */
export const NEXT: string = `${PRELUDE}
local over = redis.call('ZRANGEBYSCORE', at .. 'leases', '-inf', now, 'LIMIT', 0, 1)
local key = over[1] or redis.call('ZRANGE', at .. 'pending', 0, 0)[1]
if not key then return false end
return take(key, row(key), ARGV[1], ARGV[2], ARGV[3])`;

/** Arguments: key, body or nothing. Answers 1 if it was added. */
export const ADD: string = `${PRELUDE}
if redis.call('EXISTS', job(ARGV[1])) == 1 then return 0 end
redis.call('HSET', job(ARGV[1]), 'state', 'pending')
if ARGV[2] ~= '' then redis.call('HSET', job(ARGV[1]), 'body', ARGV[2]) end
redis.call('ZADD', at .. 'names', 0, ARGV[1])
redis.call('ZADD', at .. 'pending', redis.call('INCR', at .. 'arrivals'), ARGV[1])
return 1`;

/**
 * Arguments: key, the state that ends it, owner, token and holder or nothing, reason or nothing.
 * Answers 1 if it was ended so, now or before, else the key as it is, or nil.
 */
export const END: string = `${PRELUDE}
local fields = row(ARGV[1])
if not fields then return false end
local same
if ARGV[4] == '' then same = fields.owner == ARGV[3] and not fields['until']
else same = fields.token == ARGV[4] and fields.holder == ARGV[5] end
if same and fields.state == ARGV[2] then return 1 end
if not same or fields.state ~= 'running' then return told(ARGV[1], fields) end
redis.call('HSET', job(ARGV[1]), 'state', ARGV[2])
redis.call('HDEL', job(ARGV[1]), 'until')
redis.call('ZREM', at .. 'leases', ARGV[1])
if ARGV[6] ~= '' then redis.call('HSET', job(ARGV[1]), 'reason', ARGV[6]) end
return 1`;

/** Argument: key. Answers it as it is, or nil. */
export const INSPECT: string = `${PRELUDE}
local fields = row(ARGV[1])
return fields and told(ARGV[1], fields) or false`;

/** Arguments: keys after this one, state or nothing, longest page. Answers keys as they are. */
export const LIST: string = `${PRELUDE}
local page = {}
local after = ARGV[1] == '' and '-' or '(' .. ARGV[1]
while #page < tonumber(ARGV[3]) do
  local keys = redis.call('ZRANGEBYLEX', at .. 'names', after, '+', 'LIMIT', 0, 100)
  for _, key in ipairs(keys) do
    local fields = row(key)
    local wanted = fields and (ARGV[2] == '' or fields.state == ARGV[2])
    if wanted and #page < tonumber(ARGV[3]) then table.insert(page, told(key, fields)) end
    after = '(' .. key
  end
  if #keys < 100 then break end
end
return page`;

/** Argument: an id. Answers the store's, which is that one if it had none. */
export const STORE_ID: string = `
redis.call('SET', KEYS[1] .. 'store', ARGV[1], 'NX')
return redis.call('GET', KEYS[1] .. 'store')`;
