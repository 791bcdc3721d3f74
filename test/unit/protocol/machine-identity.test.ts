import { expect } from 'chai';
import fc from 'fast-check';
import {
  HostName,
  MachineIdentity,
  Network,
  NetworkInterface,
  tellingSerial,
} from '../../../src/protocol/index.ts';

describe('what a machine says about itself', () => {
  it('is one short line that can be seen and stored, whatever was sent', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 600 }), (text) => {
        const name = HostName.parse(text);
        return (
          name.length <= 255 &&
          name === name.trim() &&
          name.isWellFormed() &&
          !/[\p{Cc}\p{Cf}\u2028\u2029]/u.test(name) &&
          HostName.parse(name) === name
        );
      }),
      { numRuns: 40 },
    );
    expect(HostName.parse('  DESK\u202E-1\n ')).to.equal('DESK-1');
    expect(HostName.parse('a'.repeat(1_000_000))).to.equal(`${'a'.repeat(254)}…`);
  });

  it('has each hardware address once, in one notation, without those that are none', () => {
    const macAddresses = [
      'AA-BB-CC-00-11-22',
      'aa:bb:cc:00:11:22',
      '00:00:00:00:00:00',
      '',
      '02:00:00:00:00:01',
    ];
    expect(MachineIdentity.parse({ macAddresses })).to.deep.equal({
      macAddresses: ['02:00:00:00:00:01', 'aa:bb:cc:00:11:22'],
    });
    const spellings = [
      'AABB.CC00.1122',
      'aabbcc001122',
      'AA BB CC 00 11 22',
      'aa:bb:cc:0:11:22',
      'AA-BB-CC-0-11-22',
    ];
    expect(MachineIdentity.parse({ macAddresses: spellings })).to.deep.equal({
      macAddresses: ['aa:bb:cc:00:11:22'],
    });
    for (const macAddress of spellings) {
      expect(NetworkInterface.parse({ name: 'a', macAddress }).macAddress).to.equal('aa:bb:cc:00:11:22');
      expect(Network.parse({ macAddress }).macAddress).to.equal('aa:bb:cc:00:11:22');
    }
    const longer = '80:00:00:48:fe:80:00:00:00:00:00:00:f4:52:14:03:00:7b:cb:a1';
    expect(NetworkInterface.parse({ name: 'ib0', macAddress: longer.toUpperCase() }).macAddress).to.equal(
      longer,
    );
    const many = Array.from(
      { length: 5000 },
      (_, n) => `02:00:00:00:${(n >> 8).toString(16)}:${(n & 255).toString(16)}`,
    );
    expect(MachineIdentity.parse({ macAddresses: many }).macAddresses).to.have.length(32);
  });

  it('has a serial number that tells machines apart, unless the maker has entered none', () => {
    const none = [
      '',
      '0',
      '0000000',
      'None',
      'N/A',
      'To be filled by O.E.M.',
      'To Be Filled By O.E.M',
      'Default string',
      'System Serial Number',
      'Not Specified',
      '123456789',
      '0123456789',
      'INVALID',
      'XXXXXXX',
      '..............',
      'Chassis Serial Number',
      'Empty',
      '03000200-0400-0500-0006-000700080009',
      'Unknown',
      undefined,
    ];
    for (const serial of none) expect(tellingSerial(serial), serial).to.equal(undefined);
    for (const serial of ['SER-A', 'PF3ABCDE', 'VMware-56 4d 8e 4b', 'ec2f0ab1', '5CG1234567']) {
      expect(tellingSerial(` ${serial.toLowerCase()} `), serial).to.equal(serial.toUpperCase());
    }
  });
});
