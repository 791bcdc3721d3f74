import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { z } from 'zod';
import type { AnyRoute } from '../../src/platform/http/route.ts';
import {
  admissionOf,
  allRows,
  bodyKindOf,
  everyOne,
  type Field,
  fieldKindOf,
  kindOf,
  nameOf,
  oneOfEach,
  pathKindOf,
} from './row-kinds.ts';

const MOUNT = new URL('../../src/platform/http/mount.ts', import.meta.url);

const PLAIN: AnyRoute = {
  method: 'post',
  path: '/things',
  summary: 'Make a thing',
  access: { scopes: ['partner', 'system'], permission: 'devices:write' },
  body: z.object({ name: z.string() }),
  transaction: true,
  audit: { action: 'thing.create', resource: 'thing', note: () => ({}) },
  response: z.object({}),
  handler: () => ({}),
};

/** What of a row makes another kind of it, each with a row that differs from the plain one in this alone. */
const DIFFERENCES: Record<string, Partial<AnyRoute>> = {
  'public access': { access: 'public' },
  'access of everybody who is signed in': { access: 'signed-in' },
  'access of people': { access: 'person' },
  'access of agents': { access: 'agent' },
  'another scope': { access: { scopes: ['partner'], permission: 'devices:write' } },
  'no permission': { access: { scopes: ['partner', 'system'] } },
  'a second factor': { access: { scopes: ['partner', 'system'], permission: 'devices:write', mfa: true } },
  'no API keys': { access: { scopes: ['partner', 'system'], permission: 'devices:write', person: true } },
  'devices that wait for approval': { forPending: true },
  'another method': { method: 'put' },
  'the body of a form': { bodyType: 'form' },
  'a body of bytes': { bodyType: 'bytes' },
  'a body that may be empty': { body: z.object({ name: z.string().optional() }) },
  'a limit of its own for the body': { bodyLimit: 1000 },
  'no transaction': { transaction: false },
  idempotence: { idempotent: true },
  'a high cost': { cost: 'expensive' },
  'a cost that depends on the query': { cost: () => 'cheap' },
  'a limit of requests': { before: () => {} },
  'work before the transaction': { prepare: async () => undefined },
  'a redirect': { redirects: true },
  'another media type': { media: ['text/csv'] },
  'an id in its path': { path: '/things/:id' },
  'parameters in its path': { params: z.object({}) },
  'a query': { query: z.object({}) },
};
/** The same, with what the plain row has and these have not. */
const LESS: Record<string, { body?: undefined; audit?: undefined; unaudited?: string }> = {
  'no body': { body: undefined },
  'no audit entry': { audit: undefined },
  'no audit entry for a reason': { audit: undefined, unaudited: 'has no effect by itself' },
};
const VARIANTS = {
  'nothing else': PLAIN,
  ...Object.fromEntries(
    Object.entries({ ...DIFFERENCES, ...LESS }).map(([what, change]) => [
      what,
      // The pipeline takes a property that is undefined for one that is absent.
      { ...PLAIN, ...change } as AnyRoute,
    ]),
  ),
};

/** Properties that `mount.ts` reads and that make no kind, each with the reason. */
const NO_KIND: Record<string, string> = {
  handler: 'what the feature does; its own tests ask it',
  response: 'each response is parsed by its own schema, in one line',
  status: 'a number that is sent as it stands',
};

describe('the kind of a row', () => {
  it('differs between any two rows that differ in one of the properties that the pipeline looks at', () => {
    const names = Object.keys(VARIANTS);
    const kinds = Object.values(VARIANTS).map(kindOf);
    for (const [at, kind] of kinds.entries()) {
      expect(names[kinds.indexOf(kind)], 'has the same kind as').to.equal(names[at]);
    }
  });

  it('is the same for two rows that differ in what the pipeline does not look at', () => {
    const other: AnyRoute = {
      ...PLAIN,
      path: '/others',
      summary: 'Make another thing',
      access: { scopes: ['system', 'partner'], permission: 'sites:write' },
      errors: ['conflict'],
      status: 201,
    };
    expect(kindOf(other)).to.equal(kindOf(PLAIN));
  });

  it('covers each property that the pipeline reads of a row', () => {
    const source = readFileSync(MOUNT, 'utf8');
    const read = [...source.matchAll(/\brow\.(\w+)/g)].map(([, name = '']) => name);
    const unpacked = [...source.matchAll(/\{([\w, ]+)\}(?:: AnyRoute| = row\b)/g)].flatMap(([, names = '']) =>
      names.split(',').map((name) => name.trim()),
    );
    expect(read, 'the search').to.include.members(['access', 'body', 'prepare']);
    expect(unpacked, 'the search').to.include('cost');
    const varied = new Set(
      [...Object.values(DIFFERENCES), ...Object.values(LESS)].flatMap((change) => Object.keys(change)),
    );
    const unknown = [...new Set([...read, ...unpacked])].filter(
      (name) => !(varied.has(name) || name in NO_KIND),
    );
    expect(unknown).to.deep.equal([]);
  });
});

describe('one row of each kind', () => {
  const chosen = oneOfEach(allRows, kindOf);

  it('stands for every row of the table', () => {
    const kinds = new Set(chosen.map(kindOf));
    expect(allRows.filter((row) => !kinds.has(kindOf(row))).map(nameOf)).to.deep.equal([]);
    expect(chosen).to.have.length(kinds.size);
    expect(chosen.length).to.be.lessThan(allRows.length / 2);
  });

  it('is the same whatever the order of the table', () => {
    const reversed = oneOfEach(allRows.toReversed(), kindOf);
    expect(reversed.map(nameOf)).to.have.members(chosen.map(nameOf));
  });

  it('may be one for what a single step looks at, and then stands for every row as well', () => {
    for (const stepOf of [admissionOf, pathKindOf, bodyKindOf]) {
      const some = oneOfEach(allRows, stepOf);
      expect(some.length).to.be.lessThan(chosen.length);
      expect(new Set(some.map(stepOf))).to.deep.equal(new Set(allRows.map(stepOf)));
      // What the step looks at is part of the kind.
      const ofKind = new Map(allRows.map((row) => [kindOf(row), stepOf(row)]));
      for (const row of allRows) expect(ofKind.get(kindOf(row)), nameOf(row)).to.equal(stepOf(row));
    }
  });

  it('is every row if all are asked', () => {
    expect(everyOne(allRows, kindOf)).to.deep.equal(allRows);
  });

  it('is seldom the first row of its kind', () => {
    const byKind = new Map<string, AnyRoute[]>();
    for (const row of allRows) byKind.set(kindOf(row), [...(byKind.get(kindOf(row)) ?? []), row]);
    const large = [...byKind.values()].filter((rows) => rows.length > 2);
    const first = large.filter(([row]) => row !== undefined && chosen.includes(row));
    expect(large.length).to.be.greaterThan(10);
    expect(first.length).to.be.lessThan(large.length / 2);
  });
});

describe('the kind of a field', () => {
  const field = (schema: z.ZodType, takes: string[] = []): Field => ({
    method: 'post',
    path: '/things',
    field: 'name',
    shape: z.toJSONSchema(schema) as Field['shape'],
    takes,
  });

  it('differs with the type, its bounds, and the bad values that the schema takes', () => {
    const fields = [
      field(z.string()),
      field(z.string().max(10)),
      field(z.string().nullable()),
      field(z.number()),
      field(z.object({ description: z.string() })),
      field(z.object({ description: z.number() })),
      field(z.object({ title: z.string() })),
      field(z.string(), ['a NUL']),
      field(z.string(), ['a NUL', 'blanks']),
    ];
    expect(new Set(fields.map(fieldKindOf)).size).to.equal(fields.length);
  });

  it('is the same whatever the documentation says of it', () => {
    expect(fieldKindOf(field(z.string().describe('Of a device.')))).to.equal(fieldKindOf(field(z.string())));
  });

  it('has one field that stands for all of it', () => {
    const fields = ['a', 'b', 'c'].flatMap((name) => [
      { ...field(z.string()), field: name },
      { ...field(z.number()), field: `${name}-number` },
    ]);
    expect(oneOfEach(fields, fieldKindOf).map(fieldKindOf)).to.have.members([
      fieldKindOf(field(z.string())),
      fieldKindOf(field(z.number())),
    ]);
  });
});
