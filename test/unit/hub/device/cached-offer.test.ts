import { expect } from 'chai';
import type { OfferQuestion, UpgradeOffers } from '../../../../src/hub/ports.ts';
import { CachedOffer } from '../../../../src/hub/device/heartbeat.ts';
import type { Upgrade } from '../../../../src/protocol/index.ts';

const AGENT: Upgrade = {
  component: 'agent',
  version: '1.1.0',
  url: 'https://muster.example/agent',
  sha256: 'a'.repeat(64),
};
const DEVICE = { identity: {}, capabilities: [] } as unknown as Pick<
  OfferQuestion,
  'identity' | 'capabilities'
>;

describe('what a device should install', () => {
  it('is nothing after it has reported an upgrade, even if the offers change before they know of it', () => {
    const offers = {
      revision: 1,
      offer: () => ({ upgrade: [AGENT], revision: offers.revision, until: Infinity }),
    };
    const held = new CachedOffer(offers as unknown as UpgradeOffers);
    const at = (now: number) => held.current(DEVICE, { agentVersion: '1.0.0' }, now);
    expect(at(0)).to.deep.equal([AGENT]);
    held.reported('downloading', 1000);
    expect(at(1001)).to.deep.equal([]);
    offers.revision = 2;
    expect(at(1002), 'something else has changed').to.deep.equal([]);
    expect(at(6000), 'the offers know by now').to.deep.equal([AGENT]);
    held.reported('completed', 7000);
    offers.revision = 3;
    expect(at(7001), 'nothing is under way').to.deep.equal([AGENT]);
  });
});
