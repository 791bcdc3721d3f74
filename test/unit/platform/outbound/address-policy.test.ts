import { expect } from 'chai';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { networkInterfaces } from 'node:os';
import { addressClass, AddressPolicy } from '../../../../src/platform/outbound/address-policy.ts';

const dotted = (bytes: readonly number[]) => bytes.join('.');
const grouped = (groups: readonly number[]) => groups.map((group) => group.toString(16)).join(':');

const byte = fc.integer({ min: 0, max: 255 });
const group = fc.integer({ min: 0, max: 0xffff });
const v4 = fc.tuple(byte, byte, byte, byte).map(dotted);
/** Half of them in the part of the Internet that is in use, and a share with an IPv4 address at their end. */
const v6 = fc
  .tuple(fc.boolean(), fc.array(group, { minLength: 8, maxLength: 8 }))
  .map(([isGlobal, [first = 0, ...rest]]) =>
    grouped([isGlobal ? 0x2000 | (first & 0x1fff) : first, ...rest]),
  );

/** Any address within a range. */
function within(range: string): fc.Arbitrary<string> {
  const [network, bits] = ipaddr.parseCIDR(range);
  const bytes = network.toByteArray();
  return fc.array(byte, { minLength: bytes.length, maxLength: bytes.length }).map((random) =>
    ipaddr
      .fromByteArray(
        random.map((value, i) => {
          const fixed = Math.max(0, Math.min(8, bits - i * 8));
          const mask = (0xff << (8 - fixed)) & 0xff;
          return ((bytes[i] ?? 0) & mask) | (value & ~mask & 0xff);
        }),
      )
      .toString(),
  );
}

const NEVER = [
  ['0.0.0.0/8', 'this network'],
  ['169.254.0.0/16', 'link-local and metadata'],
  ['192.0.0.0/24', 'protocol assignments'],
  ['192.0.2.0/24', 'documentation'],
  ['192.88.99.0/24', '6to4 relays'],
  ['198.18.0.0/15', 'benchmarks'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/4', 'reserved and broadcast'],
  ['100.100.100.200/32', 'metadata of Alibaba Cloud'],
  ['168.63.129.16/32', 'platform address of Azure'],
  ['fd00:ec2::254/128', 'metadata of EC2'],
  ['::/128', 'unspecified'],
  ['64:ff9b::/96', 'NAT64'],
  ['64:ff9b:1::/48', 'local NAT64'],
  ['100::/64', 'discard'],
  ['2001::/32', 'Teredo'],
  ['2001:2::/48', 'benchmarks'],
  ['2001:20::/28', 'ORCHID'],
  ['2001:db8::/32', 'documentation'],
  ['2002::/16', '6to4'],
  ['3fff::/20', 'documentation'],
  ['5f00::/16', 'segment routing'],
  ['fe80::/10', 'link-local'],
  ['fec0::/10', 'site-local'],
  ['ff00::/8', 'multicast'],
  ['::ffff:0:0:0/96', 'IPv4-translated'],
  ['::ffff:169.254.0.0/112', 'mapped link-local'],
] as const;

const INNER = [
  '10.0.0.0/8',
  '100.64.0.0/16',
  '127.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '::1/128',
  'fc00::/8',
  '::ffff:10.0.0.0/104',
  '::ffff:127.0.0.0/104',
];

describe('addresses that the server may reach for a tenant', () => {
  for (const [range, meaning] of NEVER) {
    it(`are never ${range}, ${meaning}, even if an operator lists everything`, () => {
      const generous = new AddressPolicy({ allowedInternal: ['0.0.0.0/0', '::/0'] });
      fc.assert(
        fc.property(within(range), (address) => {
          expect(addressClass(address), address).to.equal('forbidden');
          expect(generous.permits(address), address).to.equal(false);
        }),
      );
    });
  }

  for (const range of INNER) {
    it(`are those of ${range} only if an operator lists them`, () => {
      const [none, listed] = [new AddressPolicy({}), new AddressPolicy({ allowedInternal: [range] })];
      fc.assert(
        fc.property(within(range), (address) => {
          expect(addressClass(address), address).to.equal('internal');
          expect(none.permits(address), address).to.equal(false);
          expect(listed.permits(address), address).to.equal(true);
        }),
      );
    });
  }

  it('are public by the judgement of another implementation as well', () => {
    fc.assert(
      fc.property(fc.oneof(v4, v6), (address) => {
        if (addressClass(address) !== 'public') return;
        expect(ipaddr.process(address).range(), address).to.equal('unicast');
      }),
      { numRuns: 5000 },
    );
  });

  it('are refused no more than that implementation refuses, except in ranges that are named here', () => {
    const more = ['2001::/23', '2620:4f:8000::/48', '100.100.100.200/32', '168.63.129.16/32', '192.0.0.0/24'];
    const stricter = [...more, '192.31.196.0/24', '192.52.193.0/24', '192.175.48.0/24', '192.88.99.0/24'];
    const isIn = (address: ipaddr.IPv4 | ipaddr.IPv6, ranges: string[]) =>
      ipaddr.subnetMatch(address, { found: ranges.map((range) => ipaddr.parseCIDR(range)) }, 'none') ===
      'found';
    fc.assert(
      fc.property(fc.oneof(v4, v6), (text) => {
        const address = ipaddr.process(text);
        const isGlobal = address.kind() === 'ipv4' || isIn(address, ['2000::/3']);
        if (address.range() !== 'unicast' || !isGlobal || isIn(address, stricter)) return;
        expect(addressClass(text), text).to.equal('public');
      }),
      { numRuns: 5000 },
    );
  });

  it('count as the IPv4 address that is mapped into them, in both spellings', () => {
    fc.assert(
      fc.property(fc.tuple(byte, byte, byte, byte), ([a, b, c, d]) => {
        const plain = addressClass(dotted([a, b, c, d]));
        expect(addressClass(`::ffff:${dotted([a, b, c, d])}`)).to.equal(plain);
        expect(addressClass(`0:0:0:0:0:ffff:${grouped([(a << 8) | b, (c << 8) | d])}`)).to.equal(plain);
      }),
    );
  });

  it('are not IPv4-compatible ones, which other lists take for ordinary addresses', () => {
    expect(ipaddr.parse('::7f00:1').range()).to.equal('unicast');
    expect(addressClass('::7f00:1')).to.equal('forbidden');
  });

  it('are not anything that is not one plain address', () => {
    const texts = [
      '',
      'localhost',
      '127.1',
      '0x7f000001',
      '10.0.0.0/8',
      'fe80::1%eth0',
      '2606:4700::1%1',
      ' 8.8.8.8',
    ];
    for (const text of texts) expect(addressClass(text), text).to.equal('forbidden');
  });

  it('are not those that an operator denies, public or allowed', () => {
    const policy = new AddressPolicy({ allowedInternal: ['10.0.0.0/8'], denied: ['8.8.8.0/24', '10.1.1.1'] });
    const judged = ['8.8.8.8', '::ffff:8.8.8.8', '8.8.4.4', '10.1.1.1', '10.1.1.2'];
    expect(judged.map((address) => policy.permits(address))).to.deep.equal([false, false, true, false, true]);
  });

  it('are not the server’s own, whose firewall does not see what it sends to itself', () => {
    const own = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
    const policy = new AddressPolicy({});
    for (const { address } of own) expect(policy.permits(address), address).to.equal(false);
  });
});
