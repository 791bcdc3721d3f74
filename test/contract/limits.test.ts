import { expect } from 'chai';
import { z } from 'zod';
import { routesAsData } from '../../src/features/index.ts';
import type { AnyRoute } from '../../src/platform/http/route.ts';

/** The limits of SPEC 8 (and of SHAPES 7 for live entries), against the schemas that the routes parse and document with. */

const rows = routesAsData().flatMap(({ routes }) => routes);
const nameOf = (row: AnyRoute) => `${row.method.toUpperCase()} ${row.path}`;

interface PageSize {
  byDefault: number;
  max: number;
  /** A value outside of the bounds is answered with 400, where others are clamped. */
  isRefused?: true;
}

/** The page size of every list that SPEC 8 does not name. */
const USUAL: PageSize = { byDefault: 50, max: 100 };
const LIVE: PageSize = { byDefault: 50, max: 500 };
const OTHERS: Record<string, PageSize> = {
  'GET /backup/snapshots/:id/browse': { byDefault: 50, max: 1000 },
  'GET /backup/snapshots/:id/diff': { byDefault: 50, max: 1000 },
  'GET /devices/:id/diagnostic-logs': { byDefault: 50, max: 1000 },
  'GET /devices/:id/eventlogs': { byDefault: 50, max: 500 },
  'GET /system-tools/devices/:deviceId/eventlogs/:name/events': LIVE,
  'GET /devices/:deviceId/eventlogs/:name/events': LIVE,
  'GET /search': { byDefault: 20, max: 50, isRefused: true },
  'GET /devices/columns': { byDefault: 1000, max: 1000, isRefused: true },
  'POST /filters/:id/preview': { byDefault: 10, max: 100, isRefused: true },
};

/** Fields that a query needs beside the one that is tried. */
const NEEDED: Record<string, Record<string, string>> = {
  'GET /search': { q: 'x' },
  'GET /audit-logs/search': { q: 'x' },
  'GET /software/installations': { name: 'x' },
};

describe('the limits of the specification', () => {
  const paged = rows.filter(({ query }) => query instanceof z.ZodObject && 'limit' in query.shape);

  it('name only routes that there are', () => {
    expect(paged.map(nameOf)).to.include.members(Object.keys(OTHERS));
  });

  for (const row of paged) {
    const { byDefault, max, isRefused } = OTHERS[nameOf(row)] ?? USUAL;
    const parse = (query: Record<string, string>) =>
      row.query?.safeParse({ ...NEEDED[nameOf(row)], ...query });
    const read = (query: Record<string, string>) =>
      parse(query)?.data as { page?: number; limit: number } | undefined;

    it(`hold for the page size of ${nameOf(row)}: from 1 to ${max}, ${byDefault} by default`, () => {
      expect(read({})?.limit).to.equal(byDefault);
      expect(read({ limit: '' })?.limit, 'an empty value').to.equal(byDefault);
      expect(read({ limit: '1' })?.limit).to.equal(1);
      expect(read({ limit: `${max}` })?.limit).to.equal(max);
      for (const [outside, clamped] of [
        ['0', 1],
        ['-5', 1],
        [`${max + 1}`, max],
        ['999999999999', max],
      ] as const) {
        if (isRefused === true) expect(parse({ limit: outside })?.success, outside).to.equal(false);
        else expect(read({ limit: outside })?.limit, outside).to.equal(clamped);
      }
    });

    it(`are documented for ${nameOf(row)}`, () => {
      const { properties } = z.toJSONSchema(row.query as z.ZodType, { io: 'input', unrepresentable: 'any' });
      const limit = properties?.['limit'] as { description?: string };
      expect(limit.description).to.include(`${max}`).and.include(`${byDefault}`);
    });

    if ('page' in (row.query as z.ZodObject).shape) {
      it(`clamp the page number of ${nameOf(row)} to at least 1`, () => {
        for (const below of ['', '0', '-1', '1']) expect(read({ page: below })?.page, below).to.equal(1);
        expect(read({ page: '2' })?.page).to.equal(2);
      });
    }
  }

  /** Least and greatest length of text fields in bodies, by SPEC 2 and SPEC 8. */
  const TEXTS: [route: string, field: string, min: number, max: number][] = [
    ['POST /filters', 'name', 1, 200],
    ['PATCH /filters/:id', 'name', 1, 200],
    ['POST /filters', 'description', 0, 1000],
    ['PATCH /filters/:id', 'description', 0, 1000],
    ['POST /auth/register-partner', 'companyName', 2, 255],
    ['POST /auth/register-partner', 'name', 1, 255],
    ['POST /orgs/partners', 'name', 1, 255],
    ['PATCH /orgs/partners/:id', 'name', 1, 255],
    ['PATCH /orgs/partners/me', 'name', 1, 255],
    ['POST /orgs/partners', 'slug', 1, 100],
    ['POST /orgs/organizations', 'name', 1, 255],
    ['POST /orgs/organizations', 'slug', 1, 100],
    ['PATCH /orgs/organizations/:id', 'name', 1, 255],
    ['POST /orgs/sites', 'name', 1, 255],
    ['PATCH /orgs/sites/:id', 'name', 1, 255],
    ['POST /enrollment-keys', 'name', 1, 255],
  ];
  for (const [name, field, min, max] of TEXTS) {
    it(`hold for the length of ${field} in ${name}: from ${min} to ${max}`, () => {
      const body = rows.find((row) => nameOf(row) === name)?.body;
      const schema = (body as z.ZodObject).shape[field] as z.ZodType;
      const takes = (length: number) => schema.safeParse('x'.repeat(length)).success;
      expect([takes(min), takes(max), takes(max + 1)]).to.deep.equal([true, true, false]);
      if (min > 0) expect(takes(min - 1)).to.equal(false);
    });
  }

  it('hold for the size of a preview', () => {
    const body = rows.find((row) => nameOf(row) === 'POST /filters/preview')?.body as z.ZodObject;
    const limit = body.shape['limit'] as z.ZodType;
    expect(limit.parse(undefined)).to.equal(10);
    for (const [value, isGood] of [
      [0, false],
      [1, true],
      [100, true],
      [101, false],
      [1.5, false],
    ] as const) {
      expect(limit.safeParse(value).success, `${value}`).to.equal(isGood);
    }
  });
});
