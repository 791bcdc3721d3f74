import { expect } from 'chai';
import fc from 'fast-check';
import { addressPrefix } from '../../src/platform/http/address-prefix.ts';

describe('the prefix of an address', () => {
  it('is an IPv4 address as a whole, also where it came mapped into IPv6', () => {
    expect(addressPrefix('203.0.113.7')).to.equal('203.0.113.7');
    expect(addressPrefix('::ffff:203.0.113.7')).to.equal('203.0.113.7');
  });

  it('is the first 64 bits of an IPv6 address, however that is written', () => {
    const same = [
      '2001:db8:0:1::1',
      '2001:DB8::1:0:0:0:2',
      '2001:0db8:0000:0001:ffff:ffff:ffff:ffff',
      '2001:db8:0:1:a::192.0.2.1',
      '2001:db8:0:1::1%eth0',
    ];
    expect(new Set(same.map(addressPrefix))).to.deep.equal(new Set(['2001:db8:0:1::/64']));
    expect(addressPrefix('::1')).to.equal('0:0:0:0::/64');
    expect(addressPrefix('1::')).to.equal('1:0:0:0::/64');
    expect(addressPrefix('64:ff9b::192.0.2.1')).to.equal('64:ff9b:0:0::/64');
    expect(addressPrefix('nonsense')).to.equal('nonsense');
  });

  it('is the same for two addresses where their first four groups are, and only there', () => {
    const groups = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 });
    const written = (numbers: number[]) => numbers.map((number) => number.toString(16)).join(':');
    fc.assert(
      fc.property(groups, groups, (a, b) => {
        const isSame = a.slice(0, 4).join() === b.slice(0, 4).join();
        expect(addressPrefix(written(a)) === addressPrefix(written(b))).to.equal(isSame);
      }),
    );
  });
});
