/**
 * The line of waiters, in Lua.
 *
 * The sorted set `:q` has the waiters in order of arrival. The hash `:w` has for each waiter
 * `<process> <ttl> <info>`, and for each process as `@<process>` when it was last heard of, in
 * microseconds. While anybody waits, the holder's field is of the kind `w`, so that whoever
 * ends the lease comes through `offer`.
 *
 * Processes come and go while the line of a name is never empty: what is known of those that were
 * silent for long is swept out when it is more than the line accounts for.
 *
 * A waiter is passed over and forgotten when its process was silent for long. One whose process
 * does not listen just now, which `PUBLISH` tells by the number of receivers, is passed over and
 * keeps its place: perhaps only its connection broke.
 */
import { GRANT, READ, TAKE, TIME } from "./scripts.js";

/** A process that was silent for so long is dead, milliseconds. */
const SILENT_MS = 5_000;
/** The same for one that does not listen to its channel either, milliseconds. */
const DEAF_MS = 1_500;
/** So many processes may be known, beside those that wait, before any are forgotten. */
const FORMER = 64;
/** Lines without any sign of life expire after this time, milliseconds. */
const LINE_MS = 60_000;

/** How a process is told of its turn. */
interface Telling {
  readonly command: "PUBLISH" | "SPUBLISH";
  /** The channel of `process` for the key `k`, in Lua: as `Keys.channel` has it. */
  readonly channel: string;
  /** Whether no receivers means that nobody listens. A cluster counts those of one node only. */
  readonly counts: boolean;
}

const BY_SERVER: Telling = {
  command: "PUBLISH",
  channel: "string.match(k, '^[^{]*') .. 'wake:' .. process",
  counts: true,
};
const BY_SLOT: Telling = { command: "SPUBLISH", channel: "k .. ':c:' .. process", counts: false };

const line = ({ command, channel, counts }: Telling): string => `
${TIME}${GRANT}${READ}${TAKE}
local function strike(q, w, holder)
  redis.call('HDEL', w, holder)
  return redis.call('ZREM', q, holder)
end
local function tidy(q, w)
  if redis.call('EXISTS', q) == 0 then redis.call('DEL', w) end
end
local function offer(k, q, w, last)
  local token, first
  local deaf, i = {}, 0
  while true do
    local holder = redis.call('ZRANGE', q, i, i)[1]
    if not holder then break end
    local data = redis.call('HGET', w, holder) or ''
    local process, ttl, info = string.match(data, '^(%S+) (%d+) (.*)$')
    local seen = process and redis.call('HGET', w, '@' .. process)
    local silent = seen and at - seen
    if not silent or silent > ${SILENT_MS}000 or deaf[process] and silent > ${DEAF_MS}000 then
      strike(q, w, holder)
    elseif deaf[process] then
      i = i + 1
    else
      token = token or mint(k, last)
      local heard = redis.call('${command}', ${channel}, token .. ' ' .. holder)
      if heard > 0 or ${counts ? "false" : "true"} then
        first = {holder, ttl, info}
        break
      end
      deaf[process] = true
      -- Perhaps it only lost its connection: it finds the offer if nobody else can be told.
      if silent <= ${DEAF_MS}000 then first = first or {holder, ttl, info} end
    end
  end
  if first then
    strike(q, w, first[1])
    put(k, last, token, 'w', first[1], first[2], 'o', first[3])
  end
  tidy(q, w)
end
local function settle(k, q, w)
  own(k)
  local last, field, value, left, state, since = read(k)
  if field and left > 0 then return last, field, value, left, state, since end
  if field then redis.call('HDEL', k, field) end
  offer(k, q, w, last)
  return read(k)
end
local function sweep(q, w)
  if redis.call('HLEN', w) <= 2 * redis.call('ZCARD', q) + ${FORMER} then return end
  local all = redis.call('HGETALL', w)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 1) == '@' and at - all[i + 1] > ${SILENT_MS}000 then
      redis.call('HDEL', w, all[i])
    end
  end
end
local function claim(k, field, value)
  if string.sub(field, 1, 1) == 'w' then return end
  redis.call('HDEL', k, field)
  redis.call('HSET', k, 'w' .. string.sub(field, 2), value)
end
`;

/** The scripts about the line. */
export interface LineScripts {
  /** KEYS lease, line, waiters; ARGV holder, ttl, info. As `ACQUIRE`, after the line. */
  readonly acquire: string;
  /** KEYS as above; ARGV holder, token or nothing, `any` or `offer`. Answers 1 or 0. */
  readonly release: string;
  /** KEYS as above; ARGV token. Answers 1 or 0. */
  readonly break: string;
  /**
   * KEYS as above; ARGV holder, ttl, info, process. Answers the token of an offer, or the
   * microseconds left of the lease and how many are before.
   */
  readonly enqueue: string;
  /**
   * KEYS the three of each name; ARGV process, then for each name how many holders, and them.
   * Answers for each name the microseconds left and the place of the first of them, then for each
   * holder 0 for waiting, -1 for gone, or the token of its offer.
   */
  readonly touch: string;
}

/** The scripts for a server, or for a cluster. */
export function lineScripts(isCluster: boolean): LineScripts {
  const LINE = line(isCluster ? BY_SLOT : BY_SERVER);
  return {
    acquire: `
${LINE}
local k, q, w, holder, ttl, info = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
local last, field, value, left, state, since = settle(k, q, w)
if not field then return put(k, last, mint(k, last), 'h', holder, ttl, 'l', info) end
if isOf(field, holder, '') then return kept(k, field, since, left, ttl, info) end
return {0, field, value, left}
`,
    release: `
${LINE}
local k, q, w, holder, token, what = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
own(k)
local last, field, value, left, state = read(k)
if field and isOf(field, holder, token) then
  if what == 'offer' and state == 'l' then return 0 end
  redis.call('HDEL', k, field)
  offer(k, q, w, last)
  return left > 0 and 1 or 0
end
if token ~= '' or strike(q, w, holder) == 0 then return 0 end
tidy(q, w)
return 1
`,
    break: `
${LINE}
local k, q, w = KEYS[1], KEYS[2], KEYS[3]
own(k)
local last, field, value, left = read(k)
if not field or left <= 0 or string.match(field, '%d+') ~= ARGV[1] then return 0 end
redis.call('HDEL', k, field)
offer(k, q, w, last)
return 1
`,
    enqueue: `
${LINE}
local k, q, w = KEYS[1], KEYS[2], KEYS[3]
local holder, ttl, info, process = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local last, field, value, left = settle(k, q, w)
if not field then return put(k, last, mint(k, last), 'w', holder, ttl, 'o', info) end
if isOf(field, holder, '') then return string.match(field, '%d+') end
if not redis.call('ZSCORE', q, holder) then
  local tail = redis.call('ZRANGE', q, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', q, tail and tail + 1 or 1, holder)
end
redis.call('HSET', w, holder, process .. ' ' .. ttl .. ' ' .. info, '@' .. process, us)
claim(k, field, value)
sweep(q, w)
redis.call('PEXPIRE', q, ${LINE_MS})
redis.call('PEXPIRE', w, ${LINE_MS})
return {left, redis.call('ZRANK', q, holder)}
`,
    touch: `
${LINE}
local process, out, a = ARGV[1], {}, 2
for n = 1, #KEYS, 3 do
  local k, q, w = KEYS[n], KEYS[n + 1], KEYS[n + 2]
  -- Known to live before anything is handed on: it must not be passed over by its own sign.
  if redis.call('EXISTS', w) == 1 then redis.call('HSET', w, '@' .. process, us) end
  local last, field, value, left = settle(k, q, w)
  local answer, waiting = {left or 0, -1}, false
  for i = a + 1, a + ARGV[a] do
    local holder = ARGV[i]
    if field and isOf(field, holder, '') then
      answer[#answer + 1] = string.match(field, '%d+')
    elseif redis.call('ZSCORE', q, holder) then
      if answer[2] == -1 then answer[2] = redis.call('ZRANK', q, holder) end
      answer[#answer + 1] = 0
    else
      answer[#answer + 1] = -1
    end
  end
  a = a + 1 + ARGV[a]
  if answer[2] ~= -1 then
    if field then claim(k, field, value) end
    redis.call('PEXPIRE', q, ${LINE_MS})
    redis.call('PEXPIRE', w, ${LINE_MS})
  end
  out[#out + 1] = answer
end
return out
`,
  };
}
