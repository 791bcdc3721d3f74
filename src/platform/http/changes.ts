/**
 * What an update has changed, for its audit entry: only what differs, without secrets, and never long. An entry cannot be
 * changed or removed for months, so what must not stand in it has to be kept out here.
 */
export interface Changes {
  before: Record<string, unknown>;
  after: Record<string, unknown>;
}

const MASK = '(secret)';
const TEXT_MAX = 500;
/** The most JSON of one side of a change. Fields beyond it are only named. */
const SIDE_MAX = 8000;
const DEPTH_MAX = 6;

export function changesOf(before: object, after: object): Changes {
  const both = differing(asRecord(before), asRecord(after), DEPTH_MAX);
  return { before: bounded(both.before), after: bounded(both.after) };
}

type Plain = Record<string, unknown>;

/**
 * Dates become text and whatever JSON does not know goes, as it would in the entry. Of a model also what its answers leave
 * out: the entry shows that a secret was changed. Its time is the time of the entry.
 */
function asRecord(value: object): Plain {
  const { updatedAt: _at, ...fields } = Object.fromEntries(Object.entries(value));
  return JSON.parse(JSON.stringify(fields)) as Plain;
}

const isPlain = (value: unknown): value is Plain =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Objects are compared field by field, so that one changed setting does not repeat all the others. */
function differing(before: Plain, after: Plain, depth: number): Changes {
  const both: Changes = { before: {}, after: {} };
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [was, is] = [before[key], after[key]];
    if (JSON.stringify(was) === JSON.stringify(is)) continue;
    if (isPlain(was) && isPlain(is) && depth > 0 && !isSecret(key, was)) {
      const inner = differing(was, is, depth - 1);
      put(both, key, inner.before, inner.after);
    } else {
      put(both, key, masked(key, was), masked(key, is));
    }
  }
  return both;
}

function put({ before, after }: Changes, key: string, was: unknown, is: unknown): void {
  if (was !== undefined) define(before, key, was);
  if (is !== undefined) define(after, key, is);
}

/** Also under a name such as `__proto__`, which an assignment would take for something else. */
const define = (target: Plain, key: string, value: unknown) =>
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });

const SECRET_WORDS = new Set([
  'password',
  'passphrase',
  'passwd',
  'secret',
  'secrets',
  'token',
  'tokens',
  'key',
  'keys',
  'apikey',
  'credential',
  'credentials',
  'hash',
  'pin',
  'otp',
  'psk',
]);

/**
 * By any word of the name: clientSecret, api_key, PASSWORD, privateKeyPem. What can be no secret is shown, such as
 * requirePassword: true; so is a number whose name only begins with such a word, such as passwordMinLength.
 */
function isSecret(name: string, value: unknown): boolean {
  if (value === undefined || value === null || typeof value === 'boolean') return false;
  const words = name
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z\d]+/);
  const secret = (word: string | undefined) =>
    word !== undefined && (SECRET_WORDS.has(word) || /password|secret/.test(word));
  return typeof value === 'number' ? secret(words.at(-1)) : words.some(secret);
}

function masked(name: string, value: unknown): unknown {
  if (isSecret(name, value)) return MASK;
  if (typeof value === 'string') return cut(value);
  if (Array.isArray(value)) return value.map((one: unknown) => masked('', one));
  if (!isPlain(value)) return value;
  const copy: Plain = {};
  for (const [key, one] of Object.entries(value)) define(copy, key, masked(key, one));
  return copy;
}

const cut = (text: string) =>
  text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}… (${text.length} characters)`;

function bounded(side: Plain): Plain {
  let left = SIDE_MAX;
  const kept: Plain = {};
  for (const [key, value] of Object.entries(side)) {
    const size = JSON.stringify(value).length + key.length;
    const fits = size <= left;
    if (fits) left -= size;
    define(kept, key, fits ? value : `(${size} characters, too long to keep)`);
  }
  return kept;
}
