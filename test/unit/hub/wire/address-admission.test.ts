import { expect } from 'chai';
import { AddressAdmission } from '../../../../src/hub/wire/admission.ts';

describe('admission by address', () => {
  it('admits thousands of agents from one address, and limits failed attempts in number and rate', () => {
    const admission = new AddressAdmission({ atOnce: 10, failuresPerSecond: 2 });
    for (let agent = 0; agent < 2000; agent++) {
      expect(admission.refusal('nat', 0)).to.equal(undefined);
      admission.refund('nat');
    }
    const outcomes = Array.from({ length: 12 }, () => admission.refusal('bad', 0)?.code);
    expect(outcomes).to.deep.equal([...Array<undefined>(10).fill(undefined), 'BUSY', 'BUSY']);
    expect(admission.refusal('bad', 0)?.retryAfterMs).to.be.within(2000, 6000);
    expect([500, 500, 999, 1000].map((now) => admission.refusal('bad', now)?.code)).to.deep.equal([
      undefined,
      'BUSY',
      'BUSY',
      undefined,
    ]);
    expect(admission.refusal('nat', 1000)).to.equal(undefined);
  });

  it('remembers a limited number of addresses, those with failures first', () => {
    const admission = new AddressAdmission({ atOnce: 1, failuresPerSecond: 0.001 });
    const come = (prefix: string) => admission.refusal(prefix, 0);
    expect([come('bad'), come('bad')?.code]).to.deep.equal([undefined, 'BUSY']);
    for (let n = 0; n < 30_000; n++) {
      come(`${n}`);
      admission.refund(`${n}`);
    }
    expect(come('bad')?.code).to.equal('BUSY');
    for (let n = 0; n < 30_000; n++) come(`another ${n}`);
    expect(come('bad')).to.equal(undefined);
  });
});
