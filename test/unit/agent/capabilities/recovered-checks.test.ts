import { expect } from 'chai';
import { listedChecks } from '../../../../src/agent/capabilities/images/recover.ts';
import { RecoveryResult } from '../../../../src/protocol/index.ts';

describe('agent: the checks of a recovered disk', () => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ name: `partition ${at}`, ok: at !== count - 1 }));

  it('are all of them if a result takes so many', () => {
    expect(listedChecks(many(300))).to.deep.equal({ checks: many(300) });
  });

  it('are a part of more, with their number; those that have failed are in it', () => {
    const { checks, checkCount } = listedChecks(many(305));
    expect([checks.length, checkCount]).to.deep.equal([300, 305]);
    expect(checks[0]).to.deep.equal({ name: 'partition 304', ok: false });
    const disk = { disk: 'sda', target: '/dev/sda', sha256: 'a'.repeat(64), continuedFrom: 0 };
    const [told] = RecoveryResult.shape.disks.parse([{ ...disk, checks, checkCount }]);
    expect(told).to.deep.include({ checks, checkCount });
  });
});
