import type { z } from 'zod';
import type { AnyRoute } from '../route.ts';

/**
 * Parses the body of a request. A field that is null where its schema takes no null counts as left out (SHAPES 19), at any
 * depth; where it is required, the answer says so. A patch of which nothing is left changes nothing: its nulls are named.
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
