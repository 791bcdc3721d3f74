import { createHash } from 'node:crypto';
import { z } from 'zod';
import { routesAsData } from '../../src/features/index.ts';
import { refusesKeys } from '../../src/platform/http/authentication.ts';
import type { AnyRoute } from '../../src/platform/http/route.ts';

/**
 * What kinds of rows the route table has. `mount.ts` drives every row through the same steps and looks at nothing but
 * the properties below, so a request to one row of a kind shows what the others of that kind do. The gate asks one row
 * of each kind over HTTP; `npm run test:programs` asks all of them.
 */

export const allRows: readonly AnyRoute[] = routesAsData().flatMap(({ routes }) => routes);

export const nameOf = ({ method, path }: Pick<AnyRoute, 'method' | 'path'>) =>
  `${method.toUpperCase()} ${path}`;

export const hasId = ({ path }: Pick<AnyRoute, 'path'>) => /:(id|deviceId)\b/.test(path);

/** Equal for two rows of which a request to one shows what a request to the other would. */
export function kindOf(row: AnyRoute): string {
  const { access } = row;
  return JSON.stringify({
    access: typeof access === 'string' ? access : [...access.scopes].toSorted(),
    permission: typeof access === 'object' && access.permission !== undefined,
    mfa: typeof access === 'object' && access.mfa === true,
    refusesKeys: refusesKeys(access),
    method: row.method,
    body: row.bodyType ?? (row.body === undefined ? 'none' : 'json'),
    takesEmptyBody: row.body?.safeParse({}).success ?? false,
    ownBodyLimit: row.bodyLimit !== undefined,
    transaction: row.transaction,
    idempotent: row.idempotent === true,
    cost: typeof row.cost === 'function' ? 'by query' : (row.cost ?? 'cheap'),
    limited: row.before !== undefined,
    prepares: row.prepare !== undefined,
    writesEntry: row.audit !== undefined,
    mayWrite: row.audit !== undefined || row.unaudited !== undefined,
    raw: row.redirects === true ? 'redirect' : row.media === undefined ? 'none' : 'media',
    hasId: hasId(row),
    hasParams: row.params !== undefined,
    hasQuery: row.query !== undefined,
  });
}

/** One row of each kind: always the same one, yet not the first or the plainest, because the hash of its name decides. */
export function oneOfEachKind(rows: readonly AnyRoute[]): AnyRoute[] {
  return oneOfEach(rows, kindOf, nameOf);
}

/** One of those that have the same kind: the one whose name has the smallest hash. */
export function oneOfEach<T>(all: readonly T[], kind: (one: T) => string, name: (one: T) => string): T[] {
  const chosen = new Map<string, { one: T; hash: string }>();
  for (const one of all) {
    const hash = createHash('sha256').update(name(one)).digest('hex');
    const before = chosen.get(kind(one));
    if (before === undefined || hash < before.hash) chosen.set(kind(one), { one, hash });
  }
  const names = new Set([...chosen.values()].map(({ one }) => name(one)));
  return all.filter((one) => names.has(name(one)));
}

/** The JSON schema of a field, as far as tests look into it. */
export interface Shape {
  type?: string;
  format?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Shape[];
  oneOf?: Shape[];
  items?: Shape;
  minimum?: number;
  properties?: Record<string, Shape>;
  required?: string[];
}

const shapes = new WeakMap<z.ZodType, Shape>();

export function shapeOf(schema: z.ZodType): Shape {
  const known = shapes.get(schema);
  if (known !== undefined) return known;
  const shape = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape;
  shapes.set(schema, shape);
  return shape;
}

/** The fields of a body; of a body with several forms those of the first. */
export function bodyFields(row: AnyRoute): [name: string, shape: Shape][] {
  if (row.body === undefined) return [];
  const whole = shapeOf(row.body);
  return Object.entries(((whole.oneOf ?? whole.anyOf)?.[0] ?? whole).properties ?? {});
}

/** A field of a row, and what distinguishes it for a client that sends what it should not. */
export interface Field {
  row: AnyRoute;
  name: string;
  shape: Shape;
  /** The bad values that the schema takes. A refinement shows in them, which the JSON schema does not tell. */
  takes: readonly string[];
}

const WORDS_ONLY = new Set(['description', 'title', 'default', 'examples', '$schema']);

export function fieldKindOf({ shape, takes }: Pick<Field, 'shape' | 'takes'>): string {
  const text = JSON.stringify(shape, (key, value: unknown) =>
    WORDS_ONLY.has(key) && typeof value !== 'object' ? undefined : value,
  );
  return `${text} takes ${takes.join(', ')}`;
}

/** One field of each kind, wherever in the table it is. */
export function oneFieldOfEachKind(fields: readonly Field[]): Field[] {
  return oneOfEach(fields, fieldKindOf, ({ row, name }) => `${nameOf(row)} ${name}`);
}
