import { expect } from 'chai';
import { placeOf } from '../../../../src/features/agent-upgrades/resolve-target.ts';
import { createReleaseBench, type ReleaseBench, upload } from '../../../support/releases/release-support.ts';
import { buildFleet, type FleetDevice, inSystem } from '../../../support/agent-upgrades/rollout-fleet.ts';
import { type Fate, RolloutSimulation } from './rollout-simulation.ts';

/** `npm run bench:agent-rollouts` is the long form, with other seeds, laptops that are closed, and the figures. */

const WAVES = [
  { percent: 5, soakMinutes: 240 },
  { percent: 15, soakMinutes: 1440 },
  { percent: 30, soakMinutes: 1440 },
  { percent: 50, soakMinutes: 1440 },
];

describe('a rollout over many devices', function () {
  this.timeout(120_000);
  let bench: ReleaseBench;
  let devices: FleetDevice[];
  before(async () => {
    bench = await createReleaseBench({ env: { AGENT_AUTO_PROMOTE: 'false' } });
    await upload(bench, { version: '1.1.0' });
    devices = await buildFleet(bench.app, { size: 400, organizations: 5 });
  });
  after(() => bench.close());
  afterEach(() =>
    inSystem(bench.app, async (tx) => {
      await tx('device_upgrades').delete();
      await tx.raw(`update agent_rollouts set state = 'aborted', ended_at = now() where ended_at is null`);
      await tx.raw(`update devices set agent_version = '1.0.0'`);
      await tx.raw(
        `update device_presence set state = 'connected', reason = 'connected', last_seen_at = now()`,
      );
    }),
  );

  const call = (method: string, path: string, body?: object) =>
    bench.app.call(method, `/agent-rollouts${path}`, {
      token: bench.admin.token,
      ...(body === undefined ? {} : { body }),
    });

  /** Starts a rollout of a release that does so to every nth device, by their places: so many are in each wave. */
  async function start(fate: Fate, everyNth: number) {
    const { body: rollout } = await call('POST', '', { version: '1.1.0', waves: WAVES });
    const byPlace = [...devices].sort((a, b) => placeOf(rollout.id, a.id) - placeOf(rollout.id, b.id));
    const broken = new Set(byPlace.filter((_device, at) => (at + 1) % everyNth === 0).map(({ id }) => id));
    const simulation = new RolloutSimulation({
      nodes: [bench.app, bench.app],
      devices,
      fateOf: (device) => (broken.has(device.id) ? fate : 'healthy'),
    });
    return { rollout, simulation, broken, read: async () => (await call('GET', `/${rollout.id}`)).body };
  }

  it('goes through all waves with a healthy release, and is completed', async () => {
    const { simulation, read } = await start('healthy', 1);
    await simulation.run({ stepMinutes: 240, forMinutes: 9000 });
    const found = await read();
    expect(found.state).to.equal('completed');
    expect(simulation.touched).to.equal(400);
    const healthy = found.waves.map(({ counts }: { counts: { healthy: number } }) => counts.healthy);
    expect(healthy.reduce((sum: number, count: number) => sum + count)).to.equal(400);
    // 4, 24, 24 and 24 hours, and the time between rounds.
    expect(simulation.minutes).to.be.within(4560, 6000);
    expect(found.halts).to.deep.equal([]);
  });

  describe('of which there are 2,000', () => {
    before(async () => {
      devices.push(...(await buildFleet(bench.app, { size: 1600, organizations: 5 })));
    });

    const HALTS: [title: string, Fate, everyNth: number, reasons: string[], minutes: number][] = [
      ['that all fail to install', 'rolled_back', 1, ['failed_in_a_row'], 20],
      ['of which one in ten fails', 'rolled_back', 10, ['failed_share', 'failed_in_a_row'], 20],
      ['of which one in 33 fails', 'rolled_back', 33, ['failed_share'], 70],
      ['that all fall silent', 'silent', 1, ['silent'], 70],
      ['of which one in ten falls silent', 'silent', 10, ['silent'], 70],
    ];
    for (const [title, fate, everyNth, reasons, minutes] of HALTS) {
      it(`is halted within its first wave by devices ${title}`, async () => {
        const { rollout, simulation, broken, read } = await start(fate, everyNth);
        const firstWave = rollout.waves[0].devices;
        // A twentieth is expected, with a standard deviation of 10; with fewer than 66, one in 33 would be one device.
        expect(firstWave).to.be.within(66, 150);
        await simulation.run({ stepMinutes: 5, forMinutes: 600 });
        const found = await read();
        expect([found.state, found.wave]).to.deep.equal(['halted', 0]);
        expect(found.halts[0].reason).to.be.oneOf(reasons);
        expect(simulation.touched).to.be.at.most(firstWave);
        const haltedAfter = Date.parse(found.halts[0].haltedAt) - Date.parse(rollout.createdAt);
        expect(haltedAfter / 60_000).to.be.within(5, minutes + 1);
        // Each of the devices that are named has what the halt is about.
        const named: { deviceId: string }[] = found.halts[0].devices;
        expect(named.filter(({ deviceId }) => !broken.has(deviceId))).to.deep.equal([]);
        expect(named).to.have.length(Math.min(100, found.halts[0].deviceCount));
        expect(found.waves[1].counts.waiting).to.deep.equal({ rollout_halted: found.waves[1].devices });
        expect(await simulation.step(), 'nothing more happens').to.equal(false);
      });
    }
  });
});
