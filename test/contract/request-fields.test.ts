import { expect } from 'chai';
import { z } from 'zod';
import type { AnyRoute } from '../../src/platform/http/route.ts';
import { parseBody } from '../../src/platform/http/parse-body.ts';
import { allRows, nameOf } from './row-kinds.ts';

/** What holds for the fields of every route: a day stands for a time, and null leaves out what is optional (SHAPES 19). */

interface Shape {
  $ref?: string;
  format?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  minLength?: number;
  properties?: Record<string, Shape>;
  required?: string[];
  items?: Shape;
  anyOf?: Shape[];
  oneOf?: Shape[];
  allOf?: Shape[];
}

interface Field {
  path: string;
  shape: Shape;
  isRequired: boolean;
}

const DEEPEST = 8;

/** Every field below a schema, with what it may be. */
function fieldsOf(schema: z.ZodType): Field[] {
  const whole = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape & {
    $defs?: Record<string, Shape>;
  };
  const found: Field[] = [];
  const walk = (shape: Shape, path: string, depth: number) => {
    if (depth > DEEPEST) return;
    const known =
      shape.$ref === undefined ? shape : (whole.$defs?.[shape.$ref.split('/').at(-1) ?? ''] ?? {});
    for (const [name, inner] of Object.entries(known.properties ?? {})) {
      const at = path === '' ? name : `${path}.${name}`;
      found.push({ path: at, shape: inner, isRequired: known.required?.includes(name) ?? false });
      walk(inner, at, depth + 1);
    }
    for (const form of formsOf(known)) walk(form, path, depth + 1);
    if (known.items !== undefined) walk(known.items, `${path}[]`, depth + 1);
  };
  walk(whole, '', 0);
  return found;
}

const formsOf = ({ anyOf = [], oneOf = [], allOf = [] }: Shape): Shape[] => [...anyOf, ...oneOf, ...allOf];
const formatsOf = (shape: Shape): string[] => [
  ...(shape.format === undefined ? [] : [shape.format]),
  ...formsOf(shape).flatMap(formatsOf),
];

const takesNull = (shape: Shape): boolean => shape.type === 'null' || formsOf(shape).some(takesNull);

const inputsOf = ({ query, body }: AnyRoute) =>
  [query, body].filter((schema): schema is z.ZodType => schema !== undefined);

describe('the fields of requests', () => {
  /** Whose names say that they are times, but which are written otherwise. */
  const NO_INSTANT: Record<string, string> = {
    stopAt: 'by the clock of the machine, which has no zone',
    'repeat.until': 'a date of the calendar of the window’s time zone',
    'match.hours.from': 'a time of day',
    'match.hours.to': 'a time of day',
    'quietHours.from': 'a time of day',
    'quietHours.to': 'a time of day',
    'settings.agentUpdates.maintenanceWindow.start': 'a time of day',
    'settings.agentUpdates.maintenanceWindow.end': 'a time of day',
  };
  const SOUNDS_LIKE_A_TIME =
    /(^|\.)(\w+(At|Until|Since|Time|Date)|from|to|since|until|date|asOf|extendUntil)$/;

  it('take a day wherever they take a time', () => {
    const faulty: string[] = [];
    let times = 0;
    for (const row of allRows) {
      for (const schema of inputsOf(row)) {
        for (const { path, shape } of fieldsOf(schema)) {
          const formats = formatsOf(shape);
          const isTime = formats.includes('date-time') || formats.includes('date');
          const isOther = shape.type === 'boolean' || shape.enum !== undefined || path in NO_INSTANT;
          const sounds = SOUNDS_LIKE_A_TIME.test(path) && !isOther;
          if (!isTime && !sounds) continue;
          times += 1;
          if (!formats.includes('date-time') || !formats.includes('date')) {
            faulty.push(`${nameOf(row)} ${path}`);
          }
        }
      }
    }
    expect(times).to.be.greaterThan(60);
    expect(faulty).to.deep.equal([]);
  });

  it('are left out by null if they are optional, and refused if they are required', () => {
    const faulty: string[] = [];
    let [optional, required] = [0, 0];
    for (const row of allRows) {
      if (row.body === undefined || row.bodyType === 'form') continue;
      const isPatch = row.method === 'patch';
      const issuesOf = (body: object) =>
        new Set(
          (parseBody({ method: 'post', body: row.body! }, body).error?.issues ?? []).map(
            ({ path, message }) => `${path.join('.')} ${message}`,
          ),
        );
      const withoutAny = issuesOf({});
      for (const { path, shape, isRequired } of fieldsOf(row.body).filter(({ path: name }) =>
        /^\w+$/.test(name),
      )) {
        const withNull = issuesOf({ [path]: null });
        if (isRequired) {
          required += 1;
          if (withNull.size === 0 && !takesNull(shape)) faulty.push(`${nameOf(row)} ${path} is required`);
        } else {
          optional += 1;
          const more = [...withNull].filter((issue) => !withoutAny.has(issue));
          // What a patch clears may contradict the rest of the body.
          if (more.length > 0 && !isPatch) faulty.push(`${nameOf(row)} ${path}: ${more.join('; ')}`);
          if (more.some((issue) => /received null/.test(issue))) {
            faulty.push(`${nameOf(row)} ${path} is not left out`);
          }
        }
      }
    }
    expect([optional > 200, required > 100]).to.deep.equal([true, true]);
    expect(faulty).to.deep.equal([]);
  });

  it('are left out by null at any depth, and never as entries of lists', () => {
    const Inner = z.strictObject({ a: z.string().optional(), b: z.number() });
    const Body = z.strictObject({
      inner: Inner.optional(),
      list: z.array(Inner.or(z.string())).optional(),
      either: z
        .discriminatedUnion('type', [z.strictObject({ type: z.literal('x'), c: z.string().optional() })])
        .optional(),
      kept: z.string().nullable().optional(),
      free: z.record(z.string(), z.unknown()).optional(),
    });
    const sent = {
      inner: { a: null, b: 1 },
      list: [{ a: null, b: 2 }, 'text'],
      either: { type: 'x', c: null },
      kept: null,
      free: { n: null },
    };
    const copy = structuredClone(sent);
    expect(parseBody({ method: 'post', body: Body }, sent).data).to.deep.equal({
      inner: { b: 1 },
      list: [{ b: 2 }, 'text'],
      either: { type: 'x' },
      kept: null,
      free: { n: null },
    });
    expect(sent, 'what was sent stays as it was').to.deep.equal(copy);
    for (const body of [{ inner: { a: 'x', b: null } }, { list: [null] }, { unknown: null }, null]) {
      expect(parseBody({ method: 'post', body: Body }, body).success, JSON.stringify(body)).to.equal(false);
    }
  });
});
