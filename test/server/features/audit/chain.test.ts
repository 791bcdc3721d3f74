import canonicalizePackage from 'canonicalize';
import { expect } from 'chai';
import fc from 'fast-check';
import {
  canonicalJson,
  type Json,
  canonicalContent,
  CHAIN_START,
  checksumOf,
  seal,
  sha256,
  type SealedContent,
  type UnsealedEntry,
} from '../../../../src/features/audit/chain.ts';
import { asUuid, sanitizeJson, truncateText } from '../../../../src/features/audit/audit-trail.ts';
import { storableText } from '../../../../src/protocol/index.ts';
import { isoTime } from '../../../../src/features/audit/stored-chains.queries.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

// Its types describe another kind of module than it is.
const canonicalize = canonicalizePackage as unknown as (value: unknown) => string | undefined;

const anyText = () => fc.string({ unit: 'binary' });
/** With what neither Postgres nor UTF-8 takes: NUL, and halves of characters. */
const wildText = () =>
  fc.oneof(
    anyText(),
    fc
      .array(fc.constantFrom('\0', '\ud800', '\udfff', '😀', 'a', '\u2028', '"', '\\'), { maxLength: 8 })
      .map((all) => all.join('')),
  );
const json = () => fc.jsonValue({ maxDepth: 5, stringUnit: 'binary' }) as fc.Arbitrary<Json>;
const wildJson = () =>
  fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      wildText(),
      fc.double(),
      fc.integer(),
      fc.boolean(),
      fc.constantFrom(null, undefined, 1e21, -0, 5e-324, 1.7976931348623157e308, 2 ** 53 + 2, 0.1 + 0.2),
      fc.date({ noInvalidDate: true }),
      fc.bigInt(),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(
        fc.oneof(wildText(), fc.constantFrom('__proto__', '10', '9', 'constructor')),
        tie('value'),
        { maxKeys: 4 },
      ),
    ),
  })).value;

const orNull = <T>(one: fc.Arbitrary<T>) => fc.option(one, { nil: null });
const entry = (): fc.Arbitrary<UnsealedEntry> =>
  fc.record({
    id: fc.uuid(),
    orgId: orNull(fc.uuid()),
    partnerId: orNull(fc.uuid()),
    timestamp: fc.date({ noInvalidDate: true }).map((at) => at.toISOString()),
    actorType: anyText(),
    actorId: fc.uuid(),
    actorEmail: orNull(anyText()),
    action: anyText(),
    resourceType: anyText(),
    resourceId: orNull(fc.uuid()),
    resourceName: orNull(anyText()),
    details: json(),
    ipAddress: orNull(anyText()),
    userAgent: orNull(anyText()),
    result: anyText(),
    errorMessage: orNull(anyText()),
  });
const content = (): fc.Arbitrary<SealedContent> =>
  fc
    .tuple(entry(), fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), orNull(anyText()))
    .map(([one, seq, prevChecksum]) => ({ ...one, seq, prevChecksum }));

describe('the canonical form', () => {
  it('is that of RFC 8785, as another implementation writes it', () => {
    fc.assert(
      fc.property(json(), (value) => canonicalJson(value) === canonicalize(value)),
      { numRuns: 2000 },
    );
  });

  it('is that of RFC 8785’s own example', () => {
    const value = JSON.parse(
      '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}',
    );
    expect(canonicalJson(value)).to.equal(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
  });

  it('of an entry is the general one of every column', () => {
    fc.assert(
      fc.property(content(), (one) => canonicalContent(one) === canonicalize({ ...one, v: 1 })),
      { numRuns: 2000 },
    );
  });

  it('tells apart whatever two entries differ in', () => {
    fc.assert(
      fc.property(content(), content(), (one, other) => {
        for (const name of Object.keys(one) as (keyof SealedContent)[]) {
          const changed = { ...one, [name]: other[name] };
          const same = canonicalize(changed) === canonicalize(one);
          expect(checksumOf(changed) === checksumOf(one), name).to.equal(same);
        }
      }),
    );
  });
});

describe('sealing', () => {
  it('gives the same chain, however the entries are cut into batches', () => {
    fc.assert(
      fc.property(fc.array(entry(), { minLength: 1, maxLength: 20 }), fc.nat(20), (entries, cut) => {
        const whole = seal(entries, CHAIN_START);
        const first = seal(entries.slice(0, cut), CHAIN_START);
        const end = first.at(-1) ?? CHAIN_START;
        expect([...first, ...seal(entries.slice(cut), end)]).to.deep.equal(whole);
        for (const [i, one] of whole.entries()) {
          expect(one.seq).to.equal(i + 1);
          expect(one.prevChecksum).to.equal(whole[i - 1]?.checksum ?? null);
          const { checksum, ...rest } = one;
          expect(checksum).to.equal(sha256(canonicalize({ ...rest, v: 1 }) ?? ''));
        }
      }),
    );
  });
});

describe('what a deed notes', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase();
  });
  after(() => database.drop());

  it('comes back from jsonb as the same value, and so with the same hash', async () => {
    const values = fc.sample(wildJson(), 1500).map((value) => sanitizeJson(value));
    const rows = await asOwner<{ value: Json }>(
      database.ownerUrl,
      'select value::jsonb as value from unnest($1::text[]) with ordinality as t (value, n) order by n',
      [values.map((value) => JSON.stringify(value))],
    );
    expect(rows.length).to.equal(values.length);
    for (const [i, { value }] of rows.entries()) {
      expect(canonicalJson(value)).to.equal(canonicalJson(values[i] ?? null));
    }
  });

  it('comes back from text columns as the same text', async () => {
    const texts = fc.sample(wildText(), 1500).map(storableText);
    const rows = await asOwner<{ text: string }>(
      database.ownerUrl,
      'select text from unnest($1::text[]) with ordinality as t (text, n) order by n',
      [texts],
    );
    expect(rows.map(({ text }) => text)).to.deep.equal(texts);
  });

  it('is cut to what its column takes, never in the middle of a character', () => {
    fc.assert(
      fc.property(wildText(), fc.nat(10), (text, length) => {
        const cut = truncateText(text, length);
        expect(Array.from(cut).length).to.be.at.most(length);
        expect(Buffer.from(cut).toString()).to.equal(cut);
      }),
    );
  });

  it('is written whatever it is: too deep, or nothing that JSON can say', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 20_000; i++) deep = [deep];
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    for (const value of [deep, circle]) {
      expect(canonicalJson(sanitizeJson(value)).length).to.be.lessThan(1000);
    }
    let nested: unknown = 1;
    for (let i = 0; i < 150; i++) nested = { nested };
    expect(canonicalJson(sanitizeJson(nested))).to.contain('deeper than is kept');
    expect(sanitizeJson(undefined)).to.equal(null);
  });

  it('has ids as Postgres writes them, or the zero UUID and what was said', () => {
    expect(asUuid('01A1FD47-2F3C-75E4-B469-6B99D47A4FC0')).to.deep.equal({
      id: '01a1fd47-2f3c-75e4-b469-6b99d47a4fc0',
    });
    expect(asUuid('server-1')).to.deep.equal({ id: '00000000-0000-0000-0000-000000000000', raw: 'server-1' });
  });

  it('has times to the millisecond, whichever way they were read', async () => {
    const times = fc.sample(
      fc.date({ min: new Date('1970-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }),
      500,
    );
    const rows = await asOwner<{ text: string; at: Date }>(
      withUtc(database.ownerUrl),
      `select at::timestamptz(3)::text as text, at::timestamptz(3) as at
      from unnest($1::text[]) with ordinality as t (at, n) order by n`,
      [times.map((at) => at.toISOString())],
    );
    for (const [i, { text, at }] of rows.entries()) {
      expect(isoTime(text)).to.equal(times[i]?.toISOString());
      expect(at.toISOString()).to.equal(isoTime(text));
    }
  });
});

function withUtc(url: string): string {
  const changed = new URL(url);
  changed.searchParams.set('options', '-c timezone=UTC');
  return changed.href;
}
