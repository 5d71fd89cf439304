/**
 * The steps of the store, in Lua: each is one atomic script.
 *
 * The hash of a name has the field `t`, its last token, and at most one field for its holder:
 *
 * - `h<token>:<holder>`: a lease, and nobody waits
 * - `w<token>:<holder>`: an offer; or a lease that somebody may wait for, or that ends sooner than
 *   granted
 *
 * So a lease that nobody waits for is released by a plain `HDEL` of its field, which compares
 * holder and token by itself; the first waiter renames the field, and that `HDEL` then finds
 * nothing. A renewal that ends a lease sooner renames it as well: a plain `HDEL` does not see that
 * the time is over, and is sent while the lease would be live as it was granted.
 *
 * The value is `<since, µs> <ttl, ms> <l or o> <info>`: `l` is a lease, `o` an offer.
 *
 * The line of waiters is in `line-scripts.ts`.
 *
 * Tokens are text here, compared by length and then by digits: numbers are doubles in Lua, and lose
 * their last digits above 2^53. Times in microseconds stay below that until the year 2255.
 */

/** How long an offer stands without a renewal, milliseconds. */
export const OFFER_MS = 1_000;

/** `us` is the server's time in microseconds, as text of 16 digits. */
export const TIME: string = `
local now = redis.call('TIME')
local us = now[1] .. string.sub('00000' .. now[2], -6)
`;

/**
 * `mint` draws the next token: the time, or one more than the last where that is ahead of the time.
 *
 * `keep` lets the hash outlive the last lease and the moment at which the time passes its token, so
 * that the token after it is higher. It acts once in 10^11 µs (28 hours, while the first five
 * digits stay the same) and keeps for twice as long, which saves a call to most grants.
 */
export const GRANT: string = `
local function isAhead(last)
  return last and (#last > #us or (#last == #us and last >= us))
end
local function mint(k, last)
  if not isAhead(last) then return us end
  redis.call('HINCRBY', k, 't', 1)
  return redis.call('HGET', k, 't')
end
local function keep(k, since, token, ttl)
  if isAhead(token) and token ~= us then
    local atMs = math.max(tonumber(token), tonumber(us)) / 1000 + ttl + 2e8
    redis.call('PEXPIREAT', k, string.format('%.0f', atMs))
  elseif not since or string.sub(since, 1, 5) ~= string.sub(us, 1, 5) or ttl + 0 > 1e8 then
    redis.call('PEXPIRE', k, string.format('%.0f', ttl + 2e8))
  end
end
`;

/**
 * `kept` stores a lease again, from now on for `ttl`, and lets a plain release find it only where
 * that is no sooner an end than before.
 */
const AGAIN: string = `
local function kept(k, field, since, left, ttl, info)
  local kind = left > ttl * 1000 and 'w' or string.sub(field, 1, 1)
  local again = kind .. string.sub(field, 2)
  if again ~= field then redis.call('HDEL', k, field) end
  redis.call('HSET', k, again, us .. ' ' .. ttl .. ' l ' .. info)
  local token = string.match(field, '%d+')
  keep(k, since, token, ttl)
  return token
end
`;

/**
 * `read` answers last token, holder's field, its value, and the microseconds left of it.
 *
 * `own` fails on a replica, which may be behind: a script that changes nothing would let its answer
 * pass. It writes, and changes nothing.
 */
export const READ: string = `
local at = tonumber(us)
local function own(k) redis.call('HDEL', k, '-') end
local function read(k)
  local raw = redis.call('HGETALL', k)
  local last, field, value
  for i = 1, #raw, 2 do
    local f = raw[i]
    if f == 't' then last = raw[i + 1]
    elseif not field and string.find(f, '^[hw]%d+:') then field, value = f, raw[i + 1]
    else error('TENURE_FOREIGN') end
  end
  if not field then return last end
  local since, ttl, state = string.match(value, '^(%d+) (%d+) ([lo]) ')
  if not since then error('TENURE_FOREIGN') end
  local span = state == 'o' and ${OFFER_MS} or ttl
  return last, field, value, since + span * 1000 - at, state, since
end
local function isOf(field, holder, token)
  local t, h = string.match(field, '^.(%d+):(.*)$')
  return h == holder and (token == '' or token == t)
end
`;

/** `take` is acquire where nobody waits; it answers `{2}` where the line has to be looked at. */
export const TAKE: string = `
local function put(k, last, token, kind, holder, ttl, state, info)
  local field = kind .. token .. ':' .. holder
  redis.call('HSET', k, 't', token, field, us .. ' ' .. ttl .. ' ' .. state .. ' ' .. info)
  keep(k, last, token, ttl)
  return token
end
${AGAIN}local function take(k, holder, ttl, info)
  local last, field, value, left, state, since = read(k)
  if field and left > 0 then
    if isOf(field, holder, '') then return kept(k, field, since, left, ttl, info) end
    own(k)
    return {0, field, value, left}
  end
  if field then
    if string.sub(field, 1, 1) == 'w' then return {2} end
    redis.call('HDEL', k, field)
  end
  return put(k, last, mint(k, last), 'h', holder, ttl, 'l', info)
end
`;

/** KEYS lease; ARGV holder, ttl, info. A free name is granted before anything else is set up. */
export const ACQUIRE: string = `
local k, holder, ttl, info = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local raw = redis.call('HGETALL', k)
${TIME}
local last = raw[2]
if #raw == 2 and raw[1] == 't' and #last == 16 and last < us and ttl + 0 <= 1e8
  and string.sub(last, 1, 5) == string.sub(us, 1, 5) then
  redis.call('HSET', k, 't', us, 'h' .. us .. ':' .. holder, us .. ' ' .. ttl .. ' l ' .. info)
  return us
end
${GRANT}${READ}${TAKE}
return take(k, holder, ttl, info)
`;

/**
 * Several acquires and plain releases at once. KEYS leases; ARGV how many wishes there are, those,
 * and for each lease `a<wish><holder>` or the field to remove. A wish is `<ttl> l <info>`; where it
 * stands is one character, counted from the space. What fails for one name is told for that name
 * alone.
 *
 * The common case, a free name with a counter behind the time, comes first and without a function:
 * the server has to do it thousands of times a second.
 */
export const BATCH: string = `
${TIME}${GRANT}${READ}${TAKE}
local call, sub, byte, period = redis.pcall, string.sub, string.byte, string.sub(us, 1, 5)
local out, before = {}, ARGV[1] + 1
local isShort = {}
for i = 2, before do isShort[i] = tonumber(string.match(ARGV[i], '^%d+')) <= 1e8 end
for i = 1, #KEYS do
  local k, step, answer = KEYS[i], ARGV[before + i]
  if byte(step) == 97 then
    local wish, holder = byte(step, 2) - 31, sub(step, 3)
    local raw = call('HGETALL', k)
    local last = raw[2]
    if raw[1] == 't' and #raw == 2 and #last == 16 and last < us and isShort[wish]
      and sub(last, 1, 5) == period then
      answer = call('HSET', k, 't', us, 'h' .. us .. ':' .. holder, us .. ' ' .. ARGV[wish])
      if answer == 1 then answer = us end
    else
      local ttl, info = string.match(ARGV[wish], '^(%d+) l (.*)$')
      local ok
      ok, answer = pcall(take, k, holder, ttl, info)
      if not ok and type(answer) ~= 'table' then answer = {err = answer} end
    end
  else
    answer = call('HDEL', k, step)
  end
  if type(answer) == 'table' and answer.err then answer = {-1, answer.err} end
  out[i] = answer
end
return out
`;

/** KEYS leases; ARGV for each holder, token, ttl. Answers for each 1, 0 for none, or who holds. */
export const RENEW: string = `
${TIME}${GRANT}${READ}${AGAIN}
local function renew(k, holder, token, ttl)
  local last, field, value, left, state, since = read(k)
  if not field or left <= 0 or not isOf(field, holder, token) then
    own(k)
    return field and left > 0 and {field, value, left} or 0
  end
  kept(k, field, since, left, ttl, string.match(value, '^%d+ %d+ [lo] (.*)$'))
  return 1
end
local out = {}
for i = 1, #KEYS do
  local a = i * 3 - 2
  local ok, answer = pcall(renew, KEYS[i], ARGV[a], ARGV[a + 1], ARGV[a + 2])
  if not ok then answer = {-1, type(answer) == 'table' and answer.err or answer} end
  out[i] = answer
end
return out
`;

/** KEYS lease and line of each; answers for each nothing, or the holder and how many wait. */
export const INSPECT: string = `
${TIME}${READ}
local function look(k, q)
  local _, field, value, left = read(k)
  own(k)
  if not field or left <= 0 then return 0 end
  return {field, value, left, redis.call('ZCARD', q)}
end
local out = {}
for i = 1, #KEYS, 2 do
  local ok, answer = pcall(look, KEYS[i], KEYS[i + 1])
  if not ok then answer = {-1, type(answer) == 'table' and answer.err or answer} end
  out[#out + 1] = answer
end
return out
`;

/** KEYS id; ARGV the id to keep where there is none yet. */
export const STORE_ID: string = `
local id = redis.call('GET', KEYS[1])
if id then return id end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
`;
