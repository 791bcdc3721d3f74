import { createHash } from 'node:crypto';
import { expect } from 'chai';
import fc from 'fast-check';
import { type Candidate, placeOf, tellingMachineId } from '../../../../src/features/enrollment/place.ts';

const candidate = (more: Partial<Candidate> = {}): Candidate => ({
  id: 'owner',
  ownsId: true,
  isPending: false,
  serialNumber: undefined,
  isHeld: false,
  isProven: false,
  ...more,
});

describe('the place of a machine that enrolls', () => {
  it('is a new device if no device has its machine id', () => {
    expect(placeOf([], 'SER-1')).to.deep.equal({ kind: 'new' });
  });

  it('is the device with the id if no program holds it, whatever the serial number', () => {
    const owner = candidate({ serialNumber: 'SER-A' });
    expect(placeOf([owner], 'SER-B')).to.deep.equal({ kind: 'known', device: owner });
  });

  it('is that device if the machine has its token, although a program holds it', () => {
    const owner = candidate({ isHeld: true, isProven: true });
    expect(placeOf([owner], undefined)).to.deep.equal({ kind: 'known', device: owner });
  });

  it('waits for approval if a program holds the device', () => {
    const owner = candidate({ isHeld: true });
    expect(placeOf([owner], undefined)).to.deep.equal({ kind: 'pending', conflictsWith: owner });
  });

  it('is the device that waits already, if no program holds that one', () => {
    const owner = candidate({ isHeld: true });
    const waiting = candidate({ id: 'waiting', ownsId: false, isPending: true });
    expect(placeOf([owner, waiting], undefined)).to.deep.equal({ kind: 'known', device: waiting });
  });

  it('is the approved twin with its own serial number, if neither is held', () => {
    const owner = candidate({ serialNumber: 'SER-A' });
    const twin = candidate({ id: 'twin', ownsId: false, serialNumber: 'SER-B' });
    expect(placeOf([owner, twin], 'ser-b ')).to.deep.equal({ kind: 'known', device: twin });
    expect(placeOf([owner, twin], 'None')).to.deep.equal({ kind: 'known', device: owner });
  });

  it('is never a device that a program holds, unless its token was sent', () => {
    const any = fc.record({
      id: fc.string(),
      ownsId: fc.boolean(),
      isPending: fc.boolean(),
      serialNumber: fc.option(fc.constantFrom('A1', 'B2', '0'), { nil: undefined }),
      isHeld: fc.boolean(),
      isProven: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.array(any),
        fc.option(fc.constantFrom('A1', 'B2'), { nil: undefined }),
        (all, serial) => {
          const place = placeOf(all, serial);
          if (place.kind === 'known') return !place.device.isHeld || place.device.isProven;
          if (place.kind === 'new') return all.length === 0;
          return all.every(({ isHeld, isProven }) => isHeld && !isProven);
        },
      ),
    );
  });
});

describe('a machine id', () => {
  const ofMany = [
    '',
    '  ',
    'uninitialized',
    '0',
    '00000000000000000000000000000000',
    '00000000-0000-0000-0000-000000000000',
    'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF',
    '03000200-0400-0500-0006-000700080009',
    '03000200040005000006000700080009',
    '{03000200-0400-0500-0006-000700080009}',
    '12345678-1234-5678-90AB-CDDEEFAABBCC',
    'To be filled by O.E.M.',
    'Default string',
    'Not Settable',
    'None',
    'unknown',
  ];

  it('that many machines have is none, as it is and as agents hash it', () => {
    const hash = (raw: string) => createHash('sha256').update(`muster-agent machine id:${raw}`).digest('hex');
    for (const id of ofMany) expect(tellingMachineId(id), id).to.equal(undefined);
    for (const id of ['uninitialized', ...ofMany.slice(4, 9)]) {
      expect(tellingMachineId(hash(id)), id).to.equal(undefined);
    }
    expect(tellingMachineId(null)).to.equal(undefined);
  });

  it('of one machine is kept', () => {
    for (const id of [
      'm-1',
      'machine-1',
      'b08dfa6083e7567a1921a715000001fb',
      '4C4C4544-0042-3010-8054-B4C04F563232',
    ]) {
      expect(tellingMachineId(id), id).to.equal(id);
    }
    fc.assert(fc.property(fc.uuid({ version: 4 }), (id) => tellingMachineId(id) === id));
  });
});
