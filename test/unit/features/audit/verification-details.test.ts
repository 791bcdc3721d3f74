import { expect } from 'chai';
import { verificationDetails } from '../../../../src/features/audit/index.ts';

describe('the entry about a verification of the audit trail', () => {
  const of = (count: number) =>
    verificationDetails({
      only: null,
      chains: 1,
      entries: 100,
      isIntact: count === 0,
      faults: Array.from({ length: count }, (_, seq) => ({
        chainId: '00000000-0000-4000-8000-000000000001',
        seq,
        reason: 'checksum',
      })),
    });

  it('has the first twenty faults, and how many there were', () => {
    const { faults, faultCount } = of(33);
    expect([faults.length, faultCount]).to.deep.equal([20, 33]);
    expect(of(0)).to.deep.include({ faults: [], faultCount: 0 });
  });
});
