import { expect } from 'chai';
import fc from 'fast-check';
import { fitToLimits, networkInterfaces } from '../../../../../src/agent/capabilities/inventory/collect.ts';
import {
  INTERFACES_MAX,
  Inventory,
  INVENTORY_MAX_BYTES,
  SOFTWARE_MAX,
} from '../../../../../src/protocol/index.ts';

const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ maxLength: 400 }),
  fc.constant('\ud800 \0 '),
);
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });

describe('agent: the inventory within the limits of the server', () => {
  it('is accepted by the server, whatever the machine reports', () => {
    const found = fc.record({
      hardware: fc.record({ model: maybe(anyText), cpuCores: fc.integer({ min: 1, max: 512 }) }),
      network: fc.record({ ipAddress: maybe(fc.ipV4()), macAddress: maybe(anyText) }),
      interfaces: fc.array(
        fc.record({
          name: fc.string({ minLength: 1 }).filter((name) => name.trim() !== ''),
          macAddress: anyText,
          ipAddresses: fc.array(fc.oneof(fc.ipV4(), fc.ipV6()), { maxLength: 70 }),
          isPrimary: fc.constant(false),
        }),
      ),
      lastUser: maybe(anyText),
      software: fc.array(
        fc.record({
          name: anyText,
          version: maybe(anyText),
          publisher: maybe(anyText),
          installedAt: maybe(fc.oneof(fc.double(), fc.integer())),
        }),
        { maxLength: 20 },
      ),
    });
    fc.assert(
      fc.property(found, (machine) => {
        const told = { ...fitToLimits(machine, () => {}), collectedAt: '2026-01-01T00:00:00Z' };
        const faults = Inventory.safeParse(JSON.parse(JSON.stringify(told))).error?.issues ?? [];
        expect(faults, JSON.stringify(told)).to.deep.equal([]);
      }),
    );
  });

  it('says how many addresses an interface has, if it has more than are sent', () => {
    const addresses = Array.from({ length: 66 }, (_, at) => `192.0.2.${at}`);
    const of = (ipAddresses: string[]) =>
      fitToLimits({ hardware: {}, interfaces: [{ name: 'br0', ipAddresses, isPrimary: true }] }, () => {})
        .interfaces;
    const shown = { name: 'br0', ipAddresses: addresses.slice(0, 64), isPrimary: true };
    expect(of(addresses.slice(0, 64))).to.deep.equal([shown]);
    expect(of(addresses)).to.deep.equal([{ ...shown, addressCount: 66 }]);
  });

  it('is the same text, in whatever order the entries were found', () => {
    const entries = ['b', 'a', 'B', 'a'].map((name, place) => ({ name, version: String(place) }));
    const told = (software: typeof entries) =>
      JSON.stringify(fitToLimits({ hardware: {}, network: {}, software }, () => {}));
    expect(told(entries)).to.equal(told(entries.toReversed()));
  });

  it('drops publishers and dates first when it is too large, then the end of the list', () => {
    const many = (count: number, length: number) =>
      Array.from({ length: count }, (_, i) => ({
        name: `${String(i).padStart(6, '0')}-${'n'.repeat(length)}`,
        version: '1.0',
        publisher: 'Ünïted Publishers of the World',
        installedAt: 1_700_000_000_000,
      }));
    const warnings: string[] = [];
    const told = (software: ReturnType<typeof many>) => {
      const gathered = fitToLimits({ hardware: {}, network: {}, software }, (message) =>
        warnings.push(message),
      );
      const bytes = Buffer.byteLength(
        JSON.stringify({ ...gathered, collectedAt: '2026-01-01T00:00:00.000Z' }),
      );
      expect(bytes).to.be.most(INVENTORY_MAX_BYTES);
      return gathered.software!;
    };
    expect(told(many(4000, 30))[0]).to.include.keys('publisher', 'installedAt');
    expect(told(many(5000, 130))).to.have.length(5000);
    expect(told(many(5000, 130))[0]).to.have.keys('name', 'version');
    expect(warnings).to.deep.equal([]);
    expect(told(many(5000, 240)).length).to.be.within(3000, 4999);
    expect(told(many(SOFTWARE_MAX + 7, 10))).to.have.length(SOFTWARE_MAX);
    expect(warnings.at(-1)).to.equal(
      `The software list is too long: 7 of its ${SOFTWARE_MAX + 7} entries are not sent.`,
    );
  });

  it('names what it leaves out among what could not be read, so that the server can say it', () => {
    const interfaces = Array.from({ length: INTERFACES_MAX + 3 }, (_, n) => ({
      name: `eth${n}`,
      ipAddresses: [],
      isPrimary: false,
    }));
    const software = Array.from({ length: SOFTWARE_MAX + 7 }, (_, n) => ({ name: `p${n}` }));
    const found = fitToLimits({ hardware: {}, interfaces, software }, () => undefined);
    expect(found.failed).to.deep.equal([
      { source: 'interfaces', message: '3 of the 259 entries are not sent: the list is too long.' },
      { source: 'software', message: '7 of the 5007 entries are not sent: the list is too long.' },
    ]);
    const parsed = Inventory.safeParse({ ...found, collectedAt: new Date().toISOString() });
    expect(parsed.success).to.equal(true);
  });

  it('has one primary interface, which without a route is the first with an address', () => {
    const one = (address: string) => [{ address, mac: 'm', internal: false }] as never;
    const found = { a: one('fe80::1'), b: one('169.254.3.4'), c: one('10.0.0.1'), d: one('10.0.0.2') };
    const primary = (name: string | undefined) =>
      networkInterfaces(found, name)
        .filter(({ isPrimary }) => isPrimary)
        .map((each) => each.name);
    expect(primary(undefined)).to.deep.equal(['c']);
    expect(primary('gone')).to.deep.equal(['c']);
    expect(primary('d')).to.deep.equal(['d']);
    expect(networkInterfaces({}, 'x')).to.deep.equal([]);
  });
});
