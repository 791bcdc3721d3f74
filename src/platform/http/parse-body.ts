import type { z } from 'zod';
import type { AnyRoute } from './route.ts';

/** A part of a JSON text that `JSON.parse` would silently change, so that it is not what the sender meant. */
interface JsonTextFault {
  /** Such as `settings.name`; empty for the whole text. */
  path: string;
  message: string;
}

/**
 * The first key that an object of the text has twice, of which `JSON.parse` keeps the last; or the first number that is
 * too large, which it makes infinite.
 * @param json  text that JSON.parse has taken: nothing else is checked here
 */
export function jsonTextFault(json: string): JsonTextFault | undefined {
  // Innermost last. Of an object: the keys so far, and the one whose value is being read.
  const open: { keys: Set<string> | undefined; at: string | number }[] = [];
  const here = () => open.map(({ at }) => at).join('.');
  let keyIsNext = false;
  for (let i = 0; i < json.length; i++) {
    const inner = open.at(-1);
    switch (json[i]) {
      case '{':
        open.push({ keys: new Set(), at: '' });
        keyIsNext = true;
        break;
      case '[':
        open.push({ keys: undefined, at: 0 });
        keyIsNext = false;
        break;
      case '}':
      case ']':
        open.pop();
        keyIsNext = false;
        break;
      case ',':
        if (typeof inner?.at === 'number') inner.at++;
        keyIsNext = inner?.keys !== undefined;
        break;
      case '"': {
        const end = endOfString(json, i);
        if (keyIsNext && inner?.keys !== undefined) {
          const key = JSON.parse(json.slice(i, end + 1)) as string;
          inner.at = key;
          if (inner.keys.has(key)) return { path: here(), message: 'Duplicate key.' };
          inner.keys.add(key);
          keyIsNext = false;
        }
        i = end;
        break;
      }
      default: {
        const end = endOfNumber(json, i);
        if (end > i + 1 && !Number.isFinite(Number(json.slice(i, end)))) {
          return { path: here(), message: 'must be a number within ±1.8e308' };
        }
        i = Math.max(i, end - 1);
      }
    }
  }
  return undefined;
}

/** Where the string that begins at `start` has its closing quote. */
function endOfString(json: string, start: number): number {
  let i = start + 1;
  while (json[i] !== '"') i += json[i] === '\\' ? 2 : 1;
  return i;
}

/** Behind the number that begins at `start`; `start` itself if none does. */
function endOfNumber(json: string, start: number): number {
  NUMBER.lastIndex = start;
  return NUMBER.test(json) ? NUMBER.lastIndex : start;
}
const NUMBER = /-?\d[\d.eE+-]*/y;

/**
 * Parses the body of a request. A field that is null if its schema takes no null counts as left out (SHAPES 19), at any
 * depth; if it is required, the answer says so. A patch of which nothing is left changes nothing: its nulls are named.
 */
export function parseBody(
  { body: schema, method }: Pick<AnyRoute, 'method'> & { body: z.ZodType },
  body: unknown,
): z.ZodSafeParseResult<unknown> {
  const asSent = schema.safeParse(body);
  let parsed = asSent;
  let given = body;
  // A form of a union that takes the rest may refuse another null.
  for (let round = 0; !parsed.success && round < ROUNDS_MAX; round++) {
    const nulls = refusedNulls(parsed.error.issues, given);
    if (nulls.length === 0) break;
    given = without(given, nulls);
    parsed = schema.safeParse(given);
  }
  return method === 'patch' && isEmpty(given) ? asSent : parsed;
}

const isEmpty = (body: unknown) =>
  typeof body === 'object' && body !== null && Object.keys(body).length === 0;

const ROUNDS_MAX = 3;

type Path = readonly PropertyKey[];

/** The places of nulls that the schema refuses: fields of objects, and no entries of lists. */
function refusedNulls(issues: readonly z.core.$ZodIssue[], body: unknown, above: Path = []): Path[] {
  return issues.flatMap((issue) => {
    const path = [...above, ...issue.path];
    if (issue.code === 'invalid_union') return issue.errors.flatMap((some) => refusedNulls(some, body, path));
    return typeof path.at(-1) === 'string' && valueAt(body, path) === null ? [path] : [];
  });
}

function valueAt(body: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? (value as Record<PropertyKey, unknown>)[key]
        : undefined,
    body,
  );
}

/** A copy, because what was sent is what an idempotency key is compared by. */
function without(body: unknown, paths: readonly Path[]): unknown {
  const copy: unknown = structuredClone(body);
  for (const path of paths) {
    const holder = valueAt(copy, path.slice(0, -1));
    const key = path.at(-1);
    if (typeof holder !== 'object' || holder === null || key === undefined) continue;
    Reflect.deleteProperty(holder, key);
  }
  return copy;
}
