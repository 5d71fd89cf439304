/**
 * The record of a key on Redis: one hash. `s` is `at work` or `done`, `a` the attempt that is or
 * was at it, `i` the hash of the input, `r` the result, absent where there is none. The key's own
 * TTL is the lease, then the time for which the result is kept.
 */

/** KEYS record; ARGV attempt, lease ms. Answers `ours`, `busy`, or `done`, input hash, result. */
export const BEGIN: string = `
local m = redis.call('HMGET', KEYS[1], 's', 'a', 'i', 'r')
if m[1] == 'done' then return {'done', m[3], m[4]} end
if m[1] and m[2] ~= ARGV[1] then return {'busy'} end
redis.call('HSET', KEYS[1], 's', 'at work', 'a', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'ours'}
`;

/**
 * KEYS record; ARGV attempt, ttl ms, input hash, and the result if there is one. Answers 1 if it is
 * recorded, also by a copy of this request; else 0.
 */
export const FINISH: string = `
local m = redis.call('HMGET', KEYS[1], 's', 'a')
if m[2] ~= ARGV[1] then return 0 end
if m[1] == 'done' then return 1 end
redis.call('HSET', KEYS[1], 's', 'done', 'i', ARGV[3])
if ARGV[4] then redis.call('HSET', KEYS[1], 'r', ARGV[4]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`;

/** KEYS record; ARGV attempt. Frees the key if the attempt is at work under it. */
export const ABANDON: string = `
local m = redis.call('HMGET', KEYS[1], 's', 'a')
if m[1] == 'at work' and m[2] == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`;
