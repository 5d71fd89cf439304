/**
 * The rules of `decide.ts`, in Lua, and the steps of the fence: each one atomic script.
 *
 * The mark is a hash: `s` store, `l` lock, `t` token, `h` holder, `a` arming, `n` write, `p` the
 * marks of scopes that were left, as JSON. It has no TTL.
 *
 * A second hash beside it, `:low`, repeats what was last armed. When the mark alone is lost
 * (deleted by hand, evicted), an arming is judged by that, and an older holder stays refused. Reads
 * and writes are not: the write number is gone, so every handle has to arm again.
 *
 * Tokens are text, compared by length and then by digits: numbers are doubles in Lua.
 */

const DECIDE = `
local op, store, lock, token, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local arm, n = tonumber(ARGV[6]), tonumber(ARGV[7])
local function load(key)
  local m = redis.call('HMGET', key, 's', 'l', 't', 'h', 'a', 'n', 'p')
  if not m[1] and not m[3] then
    if redis.call('EXISTS', key) == 1 then error('TENURE_FOREIGN') end
    return nil
  end
  for i = 1, 7 do
    if not m[i] then error('TENURE_FOREIGN') end
  end
  return m
end
local function isOlder(a, b) return #a < #b or (#a == #b and a < b) end
local function decide(m)
  if not m then return op ~= 'arm' and 'unarmed' end
  if m[1] ~= store or m[2] ~= lock then return 'scope' end
  if isOlder(token, m[3]) then return 'stale' end
  if isOlder(m[3], token) then return op ~= 'arm' and 'unarmed' end
  if m[4] ~= holder then return 'conflict' end
  local a = tonumber(m[5])
  if op == 'arm' then return arm <= a and 'superseded' end
  if arm < a then return 'superseded' end
  if arm > a then return 'unarmed' end
  return op == 'write' and n <= tonumber(m[6]) and 'repeated'
end
local mark = load(KEYS[1])
local known = mark
if not mark then known = load(KEYS[2]) end
local why
if not mark and known and op ~= 'arm' then why = 'unarmed' else why = decide(known) end
if why then return {0, why, known or {}} end
`;

/** KEYS mark, low; ARGV the request. Answers `{1, past}`, or `{0, why, mark}`. */
export const ARM: string = `
${DECIDE}
local past = known and known[7] or '[]'
for i = 1, 2 do
  redis.call('HSET', KEYS[i], 's', store, 'l', lock, 't', token, 'h', holder,
    'a', ARGV[6], 'n', i == 1 and ARGV[7] or '0', 'p', past)
end
return {1, past}
`;

/** KEYS mark, low; answers the fields of the mark, or of what is left of it, or nothing. */
export const LOAD: string = `
for i = 1, 2 do
  local m = redis.call('HMGET', KEYS[i], 's', 'l', 't', 'h', 'a', 'n', 'p')
  if m[1] or m[3] then return m end
end
return {}
`;

/** KEYS mark, low; ARGV the seven fields as they were seen, or none, then the seven to set. */
export const REBASE: string = `
local seen
for i = 1, 2 do
  local m = redis.call('HMGET', KEYS[i], 's', 'l', 't', 'h', 'a', 'n', 'p')
  if not seen and (m[1] or m[3]) then seen = m end
end
local from = #ARGV - 7
if (seen and 7 or 0) ~= from then return 0 end
for i = 1, from do
  if seen[i] ~= ARGV[i] then return 0 end
end
local names = {'s', 'l', 't', 'h', 'a', 'n', 'p'}
for k = 1, 2 do
  for i = 1, 7 do redis.call('HSET', KEYS[k], names[i], ARGV[from + i]) end
end
return 1
`;

/**
 * A step with the caller's commands. ARGV goes on with, for each, `c`, how many arguments and
 * them, or `e`, which script, how many keys and them, how many arguments and them. Answers
 * `{1, replies}`, `{0, why, mark}`, or `{2, which command, error}`.
 *
 * The write number is raised first: of a write that stops half-way, nothing comes a second time.
 */
function step(before: string, scripts: readonly string[]): string {
  const functions = scripts.map((text) => `function(KEYS, ARGV)\n${text}\nend`);
  return `
local scripts = {${functions.join(",\n")}}
${DECIDE}
${before}
local out, a, nth = {}, 8, 0
local function take()
  local some, count = {}, tonumber(ARGV[a])
  for i = 1, count do some[i] = ARGV[a + i] end
  a = a + 1 + count
  return some
end
while a <= #ARGV do
  local kind = ARGV[a]
  a, nth = a + 1, nth + 1
  local ok, reply
  if kind == 'c' then
    ok, reply = pcall(redis.call, unpack(take()))
  else
    local script = scripts[tonumber(ARGV[a])]
    a = a + 1
    local keys = take()
    ok, reply = pcall(script, keys, take())
  end
  if ok and type(reply) == 'table' and reply.err then ok = false end
  if not ok then return {2, nth, type(reply) == 'table' and reply.err or tostring(reply)} end
  if reply == nil then reply = false end
  out[nth] = reply
end
return {1, out}
`;
}

/** Reads only: the server refuses a command that writes. */
export function readScript(scripts: readonly string[]): string {
  return `#!lua flags=no-writes\n${step("", scripts)}`;
}

/** Checks, raises the mark, and writes. */
export function writeScript(scripts: readonly string[]): string {
  return step("redis.call('HSET', KEYS[1], 'n', ARGV[7])", scripts);
}
