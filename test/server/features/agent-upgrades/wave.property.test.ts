import { expect } from 'chai';
import fc from 'fast-check';
import { percentThrough } from '../../../../src/features/agent-upgrades/rollout.queries.ts';
import {
  type LiveRollout,
  placeOf,
  PLACES,
  placesOf,
  waveOf,
} from '../../../../src/features/agent-upgrades/resolve-target.ts';
import { asOwner, createTestDatabase } from '../../../support/test-postgres.ts';

const uuids = fc.uuid();
const percents = fc.integer({ min: 0, max: PLACES }).map((places) => places / 100);

const rollout = (more: Partial<LiveRollout>): LiveRollout => ({
  id: '0190a1b2-0000-7000-8000-000000000001',
  component: 'agent',
  version: '1.1.0',
  reachedPercent: 0,
  isHalted: false,
  firstDevices: new Set(),
  ...more,
});

describe('the place of a device in a rollout', () => {
  it('is the same in the database', async () => {
    const database = await createTestDatabase();
    try {
      const pairs = fc.sample(fc.tuple(uuids, uuids), 5000);
      const rows = await asOwner<{ place: number }>(
        database.ownerUrl,
        `select rollout_place(r::uuid, d::uuid) as place
        from unnest(string_to_array('${pairs.map(([id]) => id).join(',')}', ','),
          string_to_array('${pairs.map(([, id]) => id).join(',')}', ',')) with ordinality as t(r, d, at) order by at`,
      );
      expect(rows.map(({ place }) => place)).to.deep.equal(pairs.map(([id, device]) => placeOf(id, device)));
    } finally {
      await database.drop();
    }
  });

  it('is a place, and the same however the ids are written', () => {
    fc.assert(
      fc.property(uuids, uuids, (id, device) => {
        const place = placeOf(id, device);
        expect(Number.isInteger(place) && place >= 0 && place < PLACES).to.equal(true);
        expect(placeOf(id.toUpperCase(), device.toUpperCase())).to.equal(place);
      }),
    );
  });

  it('spreads a fleet evenly, and another way in each rollout', () => {
    const devices = fc.sample(uuids, { numRuns: 20_000, seed: 1 });
    const early = (id: string) => new Set(devices.filter((device) => placeOf(id, device) < PLACES / 10));
    const [one, other] = [early(rollout({}).id), early('0190a1b2-0000-7000-8000-000000000002')];
    // 2,000 are expected, with a standard deviation of 42.
    for (const { size } of [one, other]) expect(size).to.be.within(1750, 2250);
    // A tenth of them is expected in both.
    expect([...one].filter((device) => other.has(device)).length).to.be.within(130, 270);
  });
});

describe('what a rollout says about a device', () => {
  it('stays reached while more of the fleet is reached', () => {
    fc.assert(
      fc.property(uuids, percents, percents, (device, one, other) => {
        const [less, more] = [Math.min(one, other), Math.max(one, other)];
        if (waveOf(rollout({ reachedPercent: less }), device) === 'reached') {
          expect(waveOf(rollout({ reachedPercent: more }), device)).to.equal('reached');
        }
      }),
    );
  });

  it('is reached for everyone at 100 %, and for nobody at 0 %, without a rollout, and while it is halted', () => {
    fc.assert(
      fc.property(uuids, percents, fc.boolean(), (device, reachedPercent, isFirst) => {
        const firstDevices = new Set(isFirst ? [device] : []);
        expect(waveOf(rollout({ reachedPercent: 100, firstDevices }), device)).to.equal('reached');
        expect(waveOf(rollout({ reachedPercent: 0, firstDevices }), device)).to.equal('not_reached');
        expect(waveOf(undefined, device)).to.equal('not_reached');
        expect(waveOf(rollout({ reachedPercent, firstDevices, isHalted: true }), device)).to.equal('halted');
      }),
    );
  });

  it('is reached with the first wave for the first devices', () => {
    fc.assert(
      fc.property(uuids, percents, (device, reachedPercent) => {
        fc.pre(reachedPercent > 0);
        expect(waveOf(rollout({ reachedPercent, firstDevices: new Set([device]) }), device)).to.equal(
          'reached',
        );
      }),
    );
  });
});

describe('the share of the fleet in the first waves', () => {
  it('is exactly the sum of their shares', () => {
    const waves = [0.1, 0.2, 29.7, 70].map((percent) => ({ percent }));
    expect(waves.map((_wave, at) => percentThrough(waves, at))).to.deep.equal([0.1, 0.3, 30, 100]);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1, maxLength: 20 }), (shares) => {
        const total = percentThrough(
          shares.map((places) => ({ percent: places / 100 })),
          shares.length,
        );
        expect(placesOf(total)).to.equal(shares.reduce((sum, places) => sum + places, 0));
      }),
    );
  });
});
