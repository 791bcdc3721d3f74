import { expect } from 'chai';
import sinon from 'sinon';
import { InProcessDirectory } from '../../../../src/hub/cluster/directory.ts';

const NOW = Date.parse('2026-01-31T08:00:00Z');

describe('the directory of one process', () => {
  let clock: sinon.SinonFakeTimers;
  let directory: InProcessDirectory;
  beforeEach(() => {
    clock = sinon.useFakeTimers({ now: NOW, toFake: ['Date'] });
    directory = new InProcessDirectory();
  });
  afterEach(() => clock.restore());

  it('gives each claim a greater epoch, and names the owner that it replaces', async () => {
    expect(await directory.claim('device-1', 'north')).to.deep.equal({ epoch: NOW, previous: undefined });
    expect(await directory.claim('device-1', 'south')).to.deep.equal({
      epoch: NOW + 1,
      previous: { nodeId: 'north', epoch: NOW },
    });
    expect(await directory.find('device-1')).to.deep.equal({ nodeId: 'south', epoch: NOW + 1 });
    expect(await directory.find('device-2')).to.equal(undefined);
    clock.setSystemTime(NOW - 60_000);
    expect((await directory.claim('device-2', 'north')).epoch).to.equal(NOW + 2);
  });

  it('goes on above an epoch that was stored', async () => {
    directory.epochSeen(NOW + 1000);
    directory.epochSeen(NOW + 10);
    expect((await directory.claim('device-1', 'north')).epoch).to.equal(NOW + 1001);
  });

  it('ends a claim by its own epoch alone', async () => {
    const first = await directory.claim('device-1', 'north');
    const second = await directory.claim('device-1', 'north');
    await directory.release('device-1', first.epoch);
    await directory.release('device-2', second.epoch);
    expect(await directory.find('device-1')).to.deep.equal({ nodeId: 'north', epoch: second.epoch });
    await directory.release('device-1', second.epoch);
    expect(await directory.find('device-1')).to.equal(undefined);
  });
});
