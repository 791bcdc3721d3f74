import { expect } from 'chai';
import type { DeviceTarget } from '../../../src/dashboard/api/routes.ts';
import {
  targetFormOf,
  targetOf,
  targetText,
  type TargetNames,
} from '../../../src/dashboard/features/device-targets/target-form.ts';

const TARGETS: DeviceTarget[] = [
  { all: true },
  { filterId: 'f' },
  { groupIds: ['a', 'b'] },
  { siteIds: ['a'] },
  { deviceIds: ['a', 'b', 'c', 'd'] },
];

describe('a target of devices', () => {
  it('is sent as it was opened', () => {
    for (const target of TARGETS) expect(targetOf(targetFormOf(target))).to.deep.equal(target);
    expect(targetOf(targetFormOf(undefined))).to.deep.equal({ all: true });
  });

  it('is said with names, as far as they are known and few', () => {
    const nameOf = (id: string) => id.toUpperCase();
    const names: TargetNames = { filter: nameOf, group: nameOf, site: nameOf, device: nameOf };
    expect(TARGETS.map((target) => targetText(target, names))).to.deep.equal([
      'All devices',
      'Filter “F”',
      'Groups A and B',
      'Site A',
      '4 devices',
    ]);
    expect(TARGETS.map((target) => targetText(target))).to.deep.equal([
      'All devices',
      'By a filter',
      '2 groups',
      '1 site',
      '4 devices',
    ]);
    const one = (id: string) => (id === 'a' ? 'A' : undefined);
    expect(targetText({ groupIds: ['a', 'b'] }, { ...names, group: one })).to.equal('2 groups');
  });
});
