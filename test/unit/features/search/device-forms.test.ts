import { expect } from 'chai';
import fc from 'fast-check';
import { hardwareAddressPart, storedForms } from '../../../../src/features/devices/device-search.ts';
import { HardwareAddress } from '../../../../src/protocol/machine-identity.ts';

describe('what is typed of a hardware address', () => {
  it('is found in the form in which addresses are stored', () => {
    for (const [typed, stored] of [
      ['AA:BB', 'aa:bb'],
      ['aa-bb-cc-0d-ee-ff', 'aa:bb:cc:0d:ee:ff'],
      ['aabb.ccdd', 'aa:bb:cc:dd'],
      ['aabb.ccdd.eeff', 'aa:bb:cc:dd:ee:ff'],
      ['aa bb cc', 'aa:bb:cc'],
      ['aabbcc-ddeeff', 'aa:bb:cc:dd:ee:ff'],
      // While it is typed, or from the middle of one.
      ['aa-bb-', 'aa:bb'],
      ['aa-bb-c', 'aa:bb:c'],
      ['b.ccdd', 'b:cc:dd'],
      ['aabb.c', 'aa:bb:c'],
      ['abb.ccd', 'a:bb:cc:d'],
      // Systems leave out zeros.
      ['a:b:c:0:1:2', '0a:0b:0c:00:01:02'],
      ['aa:b:cc', 'aa:0b:cc'],
    ]) {
      expect(hardwareAddressPart(typed ?? ''), typed).to.equal(stored);
    }
  });

  it('is not seen in other texts', () => {
    for (const text of [
      '',
      'aabb',
      'front-004',
      '10.0.0.12',
      '10.',
      'aa::bb',
      '2001:db8:0:1:2:3:4:5',
      'aabb.ccc.dd',
      '😀-aa',
      '-',
      'aa:bb:cc:dd:ee:ff:00',
    ]) {
      expect(hardwareAddressPart(text), text).to.equal(undefined);
    }
  });

  it('finds every part of an address in every writing of it', () => {
    const digits = fc.stringMatching(/^[0-9a-f]{12}$/);
    const writing = fc.constantFrom<[number, string]>([2, ':'], [2, '-'], [4, '.'], [2, ' '], [6, '-']);
    fc.assert(
      fc.property(
        digits,
        writing,
        fc.nat(16),
        fc.integer({ min: 3, max: 17 }),
        (address, [size, sign], from, length) => {
          const written = (address.match(new RegExp(`.{${size}}`, 'g')) ?? []).join(sign);
          const part = written.slice(from, from + length);
          const stored = `${HardwareAddress.parse(address)}\u001f${address}`;
          // A digit alone between two signs would be one whose zero is missing; no part of these has such.
          if (part.trim() === '' || part.length < 2) return;
          // Short groups of decimal digits are read as a part of an IPv4 address.
          if (/^\d{0,3}(\.\d{0,3})+$/.test(part)) return;
          const forms = storedForms(part.toLowerCase().replaceAll(/^[:. -]|[:. -]$/g, ''));
          expect(
            forms.some((form) => stored.includes(form)),
            `${part} of ${written}`,
          ).to.equal(true);
        },
      ),
    );
  });

  it('is searched as it was typed as well', () => {
    expect(storedForms('de-ad-1')).to.deep.equal(['de-ad-1', 'de:ad:1']);
    expect(storedForms('aa:bb')).to.deep.equal(['aa:bb']);
    expect(storedForms('front')).to.deep.equal(['front']);
    expect(storedForms('2001:0db8:0:0:0:0:0:1')).to.deep.equal(['2001:0db8:0:0:0:0:0:1', '2001:db8::1']);
    expect(storedForms('fe80::1%eth0')).to.deep.equal(['fe80::1%eth0']);
  });
});
