import { expect } from 'chai';
import fc from 'fast-check';
import { Heartbeat } from '../../../../src/protocol/index.ts';
import { isPlainHeartbeat } from '../../../../src/hub/wire/heartbeat-fast-path.ts';

/** As an agent of ours writes it. */
const PLAIN = {
  at: '2026-11-20T10:00:00.000Z',
  agentVersion: '1.4.2',
  watchdogVersion: '1.4.2',
  osVersion: 'Microsoft Windows 11 Enterprise 10.0.26100',
  osBuild: '26100.2314',
  uptimeSeconds: 11_086_412,
  metrics: { cpuPercent: 12.5, ramPercent: 61.25, diskPercent: 48.75 },
  ipAddresses: ['10.20.130.140', 'fe80::1c2d:3e4f:5a6b:7c8d', '2001:db8::8a2e:370:7334', '::1', '1::'],
  lastUser: 'CONTOSO\\jane.doe',
  pendingReboot: false,
  autoUpdate: true,
};

/** What is called plain, the schema takes as it is: the same verdict, and the same value to the last field. */
function agrees(value: unknown): boolean {
  const isPlain = isPlainHeartbeat(value);
  if (!isPlain) return false;
  const parsed = Heartbeat.safeParse(value);
  expect(parsed.success, `the schema refuses ${JSON.stringify(value)}`).to.equal(true);
  expect(parsed.data).to.deep.equal(value);
  return true;
}

/** Mutations of text: characters put in, taken out and replaced. */
const mutated = (from: fc.Arbitrary<string>, characters: string) =>
  fc
    .tuple(
      from,
      fc.array(fc.tuple(fc.nat(40), fc.nat(2), fc.constantFrom(...characters.split(''))), { maxLength: 3 }),
    )
    .map(([text, edits]) =>
      edits.reduce((so, [at, cut, put]) => so.slice(0, at) + put + so.slice(at + cut), text),
    );

const year = fc.integer({ min: -1, max: 10_000 }).map((number) => String(number).padStart(4, '0'));
const pair = fc.integer({ min: -1, max: 100 }).map((number) => String(number).padStart(2, '0'));
const instants = fc.oneof(
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
  fc
    .tuple(year, pair, pair, pair, pair, pair, fc.constantFrom('.000Z', 'Z', '.1Z', '.123+01:00', '.00aZ'))
    .map(([y, mo, d, h, mi, s, end]) => `${y}-${mo}-${d}T${h}:${mi}:${s}${end}`),
  mutated(fc.constant(PLAIN.at), '0123456789-:.TZ+ 9'),
);
const addresses = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  mutated(fc.ipV4(), '0123456789.:'),
  mutated(fc.ipV6(), '0123456789abcdefABCDEFg:.%'),
  fc
    .array(fc.constantFrom('::', ':', '1', 'ab', '0', 'ffff', '12345', '.', '%0'), { maxLength: 17 })
    .map((p) => p.join('')),
);
const texts = fc.oneof(
  fc.string({ maxLength: 60 }),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.constantFrom(
    '',
    '\0',
    'a\0b',
    '\ud800',
    '\udc00x',
    'x'.repeat(50),
    'x'.repeat(51),
    'x'.repeat(255),
    'ü'.repeat(256),
  ),
  fc.constantFrom('x'.repeat(100), 'x'.repeat(101), 'x'.repeat(200), 'x'.repeat(201)),
);
const numbers = fc.oneof(
  fc.double(),
  fc.integer(),
  fc.constantFrom(-0, 0, 100, 100.000_01, -1e-9, 1e10, 1e10 + 1, Number.NaN, Number.POSITIVE_INFINITY),
);
const strange = fc.oneof(fc.anything(), fc.jsonValue(), fc.constantFrom(null, undefined, [], {}, '12', true));
const orStrange = (arbitrary: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 12, arbitrary }, { weight: 1, arbitrary: strange });

const fields = {
  at: orStrange(instants),
  agentVersion: orStrange(texts),
  watchdogVersion: orStrange(texts),
  osVersion: orStrange(texts),
  osBuild: orStrange(texts),
  uptimeSeconds: orStrange(numbers),
  metrics: orStrange(
    fc.record(
      { cpuPercent: numbers, ramPercent: orStrange(numbers), diskPercent: numbers, extra: numbers },
      { requiredKeys: [] },
    ),
  ),
  ipAddresses: orStrange(fc.array(orStrange(addresses), { maxLength: 20 })),
  lastUser: orStrange(texts),
  pendingReboot: orStrange(fc.boolean()),
  autoUpdate: orStrange(fc.boolean()),
};

describe('the fast path for heartbeats', () => {
  it('accepts what real agents send, with and without each field', () => {
    expect(agrees(PLAIN)).to.equal(true);
    expect(agrees({ at: PLAIN.at, agentVersion: '1.0.0' })).to.equal(true);
    for (const field of Object.keys(PLAIN)) {
      const { [field as 'at']: _without, ...rest } = PLAIN;
      expect(agrees(rest), field).to.equal(field !== 'at' && field !== 'agentVersion');
    }
  });

  it('leaves to the schema whatever it would change or refuse', () => {
    for (const change of [
      { at: '2026-11-20T11:00:00.000+01:00' },
      { at: '2026-11-20T10:00:00Z' },
      { at: '2026-02-29T10:00:00.000Z' },
      { at: '2026-11-31T10:00:00.000Z' },
      { at: undefined },
      { colour: 'red' },
      { metrics: { ...PLAIN.metrics, gpuPercent: 1 } },
      { metrics: { ...PLAIN.metrics, cpuPercent: 100.1 } },
      { ipAddresses: ['010.0.0.1'] },
      { ipAddresses: ['fe80::1%eth0'] },
      { ipAddresses: ['1::2::3'] },
      { ipAddresses: ['1:2:3:4:5:6:7:8::'] },
      { agentVersion: '' },
      { lastUser: 'a\0b' },
      { osBuild: '\ud800' },
      { autoUpdate: 1 },
      { osVersion: null },
    ]) {
      expect(agrees({ ...PLAIN, ...change }), JSON.stringify(change)).to.equal(false);
    }
    // An own field of this name, as JSON can make it.
    expect(agrees(JSON.parse(`{"at":"${PLAIN.at}","agentVersion":"1","__proto__":{"x":1}}`))).to.equal(false);
    for (const value of [null, undefined, 1, 'x', [], [PLAIN], {}]) expect(agrees(value)).to.equal(false);
  });

  for (const [name, values] of Object.entries(fields)) {
    it(`agrees with the schema about any ${name}`, () => {
      fc.assert(
        fc.property(values, (value) => void agrees({ ...PLAIN, [name]: value })),
        { numRuns: 4000 },
      );
    });
  }

  it('agrees with the schema about any address and any time by itself', () => {
    let plain = 0;
    fc.assert(
      fc.property(addresses, instants, (address, at) => {
        if (agrees({ ...PLAIN, ipAddresses: [address] })) plain += 1;
        agrees({ ...PLAIN, at });
      }),
      { numRuns: 10_000 },
    );
    // Not by calling nothing plain.
    expect(plain).to.be.greaterThan(1000);
  });

  it('agrees with the schema about whole messages, also ones with more fields', () => {
    const messages = fc.oneof(
      fc.record(fields, { requiredKeys: [] }),
      fc
        .tuple(
          fc.record(fields, { requiredKeys: [] }),
          fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 2 }),
        )
        .map(([message, more]) => ({ ...PLAIN, ...message, ...more })),
      fc.anything(),
    );
    fc.assert(
      fc.property(messages, (message) => void agrees(message)),
      { numRuns: 4000 },
    );
  });
});
