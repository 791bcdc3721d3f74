import { expect } from 'chai';
import { listedAddresses } from '../../../../src/agent/core/heartbeat.ts';
import { Heartbeat } from '../../../../src/protocol/index.ts';

describe('agent: the addresses in a heartbeat', () => {
  const many = (count: number) => Array.from({ length: count }, (_, at) => `192.0.2.${at}`);

  it('are all of them if a heartbeat takes so many', () => {
    expect(listedAddresses(many(64))).to.deep.equal({ ipAddresses: many(64) });
  });

  it('are the first 64 of more, with their number, so that the heartbeat is not refused', () => {
    const listed = listedAddresses(many(70));
    expect(listed).to.deep.equal({ ipAddresses: many(64), ipAddressCount: 70 });
    const fields = Heartbeat.pick({ ipAddresses: true, ipAddressCount: true });
    expect(fields.parse(listed)).to.deep.equal(listed);
  });
});
