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
export const kindOf = (row: AnyRoute): string => JSON.stringify(traitsOf(row));

/** The same as far as the step goes that lets a caller in. */
export function admissionOf(row: AnyRoute): string {
  const { access, permission, mfa, refusesKeys: people, limited } = traitsOf(row);
  return JSON.stringify({ access, permission, mfa, people, limited });
}

/** The same as far as the step goes that reads the parameters of a path. */
export function pathKindOf(row: AnyRoute): string {
  const { access, method, body, hasId: id, hasParams } = traitsOf(row);
  return JSON.stringify({ access, method, body, id, hasParams });
}

/** The same as far as the steps go that read a body. */
export function bodyKindOf(row: AnyRoute): string {
  const { access, body, method, takesEmptyBody, ownBodyLimit } = traitsOf(row);
  const who = typeof access === 'string' ? access : 'people';
  return JSON.stringify({ who, body, method, takesEmptyBody, ownBodyLimit });
}

function traitsOf(row: AnyRoute) {
  const { access } = row;
  return {
    access: typeof access === 'string' ? access : [...access.scopes].toSorted(),
    permission: typeof access === 'object' && access.permission !== undefined,
    bases: row.bases ?? [],
    mfa: typeof access === 'object' && access.mfa === true,
    refusesKeys: refusesKeys(access),
    method: row.method,
    body: row.bodyType ?? (row.body === undefined ? 'none' : 'json'),
    takesEmptyBody: row.body?.safeParse({}).success ?? false,
    ownBodyLimit: row.bodyLimit !== undefined,
    forPending: row.forPending === true,
    transaction: row.transaction,
    idempotent: row.idempotent === true,
    cost: typeof row.cost === 'function' ? 'by query' : (row.cost ?? 'cheap'),
    limited: row.before !== undefined,
    prepares: row.prepare !== undefined,
    writesEntry: row.audit !== undefined,
    coversPages: row.audit?.coversPages === true,
    mayWrite: row.audit !== undefined || row.unaudited !== undefined,
    raw: row.redirects === true ? 'redirect' : row.media === undefined ? 'none' : 'media',
    hasId: hasId(row),
    hasParams: row.params !== undefined,
    hasQuery: row.query !== undefined,
  };
}

/** A row, or a field of a row. */
type Named = Pick<AnyRoute, 'method' | 'path'> & { field?: string };
/** Which are asked over HTTP, of those that have the same kind. */
export type Choice = <T extends Named>(all: readonly T[], kind: (one: T) => string) => readonly T[];

export const everyOne: Choice = (all) => all;

/** One of each kind: always the same one, yet not the first or the plainest, because the hash of its name decides. */
export const oneOfEach: Choice = <T extends Named>(all: readonly T[], kind: (one: T) => string) => {
  const chosen = new Map<string, { one: T; hash: string }>();
  for (const one of all) {
    const name = `${nameOf(one)} ${one.field ?? ''}`;
    const hash = createHash('sha256').update(name).digest('hex');
    const before = chosen.get(kind(one));
    if (before === undefined || hash < before.hash) chosen.set(kind(one), { one, hash });
  }
  const kept = new Set([...chosen.values()].map(({ one }) => one));
  return all.filter((one) => kept.has(one));
};

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
export interface Field extends Pick<AnyRoute, 'method' | 'path'> {
  field: string;
  shape: Shape;
  /** The bad values that the schema takes. They show a refinement, which the JSON schema leaves out. */
  takes: readonly string[];
}

const WORDS_ONLY = new Set(['description', 'title', 'default', 'examples', '$schema']);

export function fieldKindOf({ shape, takes }: Pick<Field, 'shape' | 'takes'>): string {
  const text = JSON.stringify(shape, (key, value: unknown) =>
    WORDS_ONLY.has(key) && typeof value !== 'object' ? undefined : value,
  );
  return `${text} takes ${takes.join(', ')}`;
}
