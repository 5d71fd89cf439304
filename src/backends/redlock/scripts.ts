/**
 * What one server does in one step. A record is text that begins with `HOLDER NONCE `: the nonce
 * tells the tries of one holder apart, so that taking back one try never touches a later one.
 *
 * Redis decides expiry by its wall clock, when a key is read; inside a script time stands still.
 *
 * A key of another type is a stranger's: GET fails on it, here with a table that has no text.
 */

/** KEYS: a lock. ARGV: holder, TTL in ms, the record. Answers 1, or whose it is and ms left. */
export const ACQUIRE = `
local record = redis.pcall('get', KEYS[1])
if type(record) == 'table' then return { '', 0 } end
local mine = ARGV[1] .. ' '
if record and string.sub(record, 1, #mine) ~= mine then
  return { record, redis.call('pttl', KEYS[1]) }
end
redis.call('set', KEYS[1], ARGV[3], 'px', ARGV[2])
return 1`;

/** KEYS: locks. ARGV: holder and TTL in ms of each. Per lock 1, 0 where nobody holds, or whose. */
export const RENEW = `
local answers = {}
for i, key in ipairs(KEYS) do
  local record = redis.pcall('get', key)
  local mine = ARGV[2 * i - 1] .. ' '
  if not record then
    answers[i] = 0
  elseif type(record) == 'table' then
    answers[i] = { '', 0 }
  elseif string.sub(record, 1, #mine) == mine then
    answers[i] = redis.call('pexpire', key, ARGV[2 * i])
  else
    answers[i] = { record, redis.call('pttl', key) }
  end
end
return answers`;

/** KEYS: locks. ARGV: how the record of each must begin. Per lock whether it was deleted. */
export const RELEASE = `
local answers = {}
for i, key in ipairs(KEYS) do
  local record = redis.pcall('get', key)
  local mine = type(record) == 'string' and string.sub(record, 1, #ARGV[i]) == ARGV[i]
  answers[i] = mine and redis.call('del', key) or 0
end
return answers`;

/** KEYS: locks. Per lock 0 where nobody holds, or whose it is and ms left. */
export const LOOK = `
local answers = {}
for i, key in ipairs(KEYS) do
  local record = redis.pcall('get', key)
  answers[i] = type(record) == 'string' and { record, redis.call('pttl', key) } or 0
end
return answers`;

/** KEYS: the store's id. ARGV: an id for a server that has none. Answers the id that it has. */
export const IDENTIFY = `
redis.call('set', KEYS[1], ARGV[1], 'nx')
return redis.call('get', KEYS[1])`;
