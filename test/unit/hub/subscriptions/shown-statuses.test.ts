import { expect } from 'chai';
import fc from 'fast-check';
import { RefCountedDeviceIndex, ShownStatuses } from '../../../../src/hub/subscriptions/shown-statuses.ts';
import { Subscription } from '../../../../src/hub/subscriptions/subscription.ts';
import { type DeviceCounts, DeviceStatus } from '../../../../src/protocol/index.ts';
import { CALLER, summary } from '../../../support/feed-client.ts';

const TALLIES = 3;
const DEVICES = 300;

const step = fc.record({
  tally: fc.nat(TALLIES - 1),
  // Few, so that each is put in and taken out often; and many, so that tables grow.
  device: fc.oneof(fc.nat(5), fc.nat(DEVICES - 1)).map((at) => `device-${at}`),
  what: fc.oneof(
    { weight: 40, arbitrary: fc.constantFrom(...DeviceStatus.options) },
    { weight: 25, arbitrary: fc.constant('delete' as const) },
    { weight: 1, arbitrary: fc.constant('clear' as const) },
  ),
});

function countsOf(statuses: ReadonlyMap<string, DeviceStatus>): DeviceCounts {
  const byStatus: DeviceCounts['byStatus'] = {};
  for (const status of statuses.values()) byStatus[status] = (byStatus[status] ?? 0) + 1;
  return { total: statuses.size, byStatus };
}

describe('the statuses that subscribers were shown', () => {
  it('match a plain map, with several instances at once, and are all released in the end', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 1500, size: 'max' }), (steps) => {
        const numbers = new RefCountedDeviceIndex();
        const tallies = Array.from({ length: TALLIES }, () => ({
          told: new ShownStatuses(numbers),
          model: new Map<string, DeviceStatus>(),
        }));
        for (const { tally: at, device, what } of steps) {
          const { told, model } = tallies[at] ?? tallies[0]!;
          if (what === 'clear') {
            told.clear();
            model.clear();
          } else if (what === 'delete') {
            told.delete(device);
            model.delete(device);
          } else {
            told.set(device, what);
            model.set(device, what);
          }
          expect(told.get(device)).to.equal(model.get(device));
          expect(told.has(device)).to.equal(model.has(device));
          expect(told.counts().total).to.equal(model.size);
        }
        for (const { told, model } of tallies) {
          expect(told.ids().toSorted()).to.deep.equal([...model.keys()].toSorted());
          for (const [id, status] of model) expect(told.get(id)).to.equal(status);
          expect(told.counts()).to.deep.equal(countsOf(model));
        }
        expect(numbers.size).to.equal(new Set(tallies.flatMap(({ model }) => [...model.keys()])).size);
        for (const { told } of tallies) told.clear();
        expect(numbers.size).to.equal(0);
      }),
      { numRuns: 60 },
    );
  });

  it('are released when a subscription ends, also when its initial state arrives only then', () => {
    const numbers = new RefCountedDeviceIndex();
    const begin = () =>
      new Subscription({ caller: CALLER, filter: {}, send: () => {}, shown: new ShownStatuses(numbers) });
    const ended = begin();
    ended.start([summary('a'), summary('b')]);
    expect(numbers.size).to.equal(2);
    ended.stop();
    expect(numbers.size).to.equal(0);
    // Their numbers are for others.
    expect(['c', 'd'].map((id) => numbers.acquire(id))).to.have.members([0, 1]);
    const gone = begin();
    gone.stop();
    gone.start([summary('a')]);
    expect(numbers.size).to.equal(2);
  });
});
