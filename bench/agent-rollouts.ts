import { advanceRollouts } from '../src/features/agent-upgrades/rollout.work.ts';
import { createReleaseBench, type ReleaseBench, upload } from '../test/support/releases/release-support.ts';
import {
  buildFleet,
  type FleetDevice,
  inSystem,
  stopOwnRounds,
} from '../test/support/agent-upgrades/rollout-fleet.ts';
import { type Fate, RolloutSimulation } from '../test/server/features/agent-upgrades/rollout-simulation.ts';
import { quietLog } from '../test/support/quiet-log.ts';
import { createTestApp, type TestApp } from '../test/support/test-app.ts';
import { asOwner, stopTestPostgres } from '../test/support/test-postgres.ts';

/**
 * `npm run bench:agent-rollouts` rolls releases out to 2,000 simulated devices through the real routes and the conductors
 * of two servers, several times each: how many devices a bad release touches, and after how long it is halted. A third of
 * the devices is closed for 14 hours of each day. Then it measures a round of the conductor over 100,000 devices.
 */

const DEVICES = 2000;
const TIMES = Number(process.argv[2] ?? 10);
const MANY = 100_000;
const TURNS = 5;

const RELEASES: [title: string, Fate, share: number][] = [
  ['breaks all', 'rolled_back', 1],
  ['breaks 10 %', 'rolled_back', 0.1],
  ['breaks 3 %', 'rolled_back', 0.03],
  ['breaks 0.3 %', 'rolled_back', 0.003],
  ['all fall silent', 'silent', 1],
  ['10 % fall silent', 'silent', 0.1],
  ['healthy', 'healthy', 0],
];

const bench = await createReleaseBench({ env: { AGENT_AUTO_PROMOTE: 'false' } });
const second = await createTestApp({ database: bench.app.database, env: { DATA_DIR: bench.dataDir } });
try {
  await stopOwnRounds(bench.app);
  await upload(bench, { version: '1.1.0' });
  const devices = await buildFleet(bench.app, { size: DEVICES, organizations: 20 });
  const figures: Record<string, object> = {};
  for (const [title, fate, share] of RELEASES) {
    const ends = [];
    for (let time = 0; time < TIMES; time += 1) ends.push(await rollOut(bench, second, devices, fate, share));
    figures[title] = summary(ends);
    console.log(title, figures[title]);
  }
  console.table(figures);
  await measureRounds(bench);
} finally {
  await second.close();
  await bench.close();
  await stopTestPostgres();
}

interface End {
  state: string;
  wave: number;
  firstWave: number;
  touched: number;
  minutes: number;
}

async function rollOut(
  { app, admin }: ReleaseBench,
  other: TestApp,
  devices: readonly FleetDevice[],
  fate: Fate,
  share: number,
): Promise<End> {
  await reset(app);
  const call = async (method: string, path: string, body?: object) =>
    (
      await app.call(method, `/agent-rollouts${path}`, {
        token: admin.token,
        ...(body === undefined ? {} : { body }),
      })
    ).body;
  const started = await call('POST', '', { version: '1.1.0' });
  const broken = new Set(devices.filter(() => Math.random() < share).map(({ id }) => id));
  const closed = new Set(devices.filter((_device, at) => at % 3 === 0).map(({ id }) => id));
  const simulation = new RolloutSimulation({
    nodes: [app, other],
    devices,
    fateOf: ({ id }) => (broken.has(id) ? fate : 'healthy'),
    isAwake: ({ id }, at) => !closed.has(id) || (at.getUTCHours() >= 8 && at.getUTCHours() < 18),
  });
  await simulation.run({ stepMinutes: 5, forMinutes: 10_000 });
  const found = await call('GET', `/${started.id}`);
  const endedAt = found.halts[0]?.haltedAt ?? found.endedAt;
  return {
    state: found.halts[0]?.reason ?? found.state,
    wave: found.wave,
    firstWave: found.waves[0].devices,
    touched: simulation.touched,
    minutes: Math.round((Date.parse(endedAt) - Date.parse(found.createdAt)) / 60_000),
  };
}

function summary(ends: readonly End[]) {
  const range = (values: number[]) => `${Math.min(...values)}–${Math.max(...values)}`;
  const states = [...new Set(ends.map(({ state }) => state))].map(
    (state) => `${state} ${ends.filter((end) => end.state === state).length}`,
  );
  return {
    ends: states.join(', '),
    firstWave: range(ends.map(({ firstWave }) => firstWave)),
    inFirstWave: ends.filter(({ wave }) => wave === 0).length,
    touched: range(ends.map(({ touched }) => touched)),
    minutes: range(ends.map(({ minutes }) => minutes)),
  };
}

function reset(app: TestApp): Promise<void> {
  return inSystem(app, async (tx) => {
    await tx('device_upgrades').delete();
    await tx.raw(`update agent_rollouts set state = 'aborted', ended_at = now() where ended_at is null`);
    await tx.raw(`update devices set agent_version = '1.0.0'`);
    await tx.raw(
      `update device_presence set state = 'connected', reason = 'connected', last_seen_at = now()`,
    );
  });
}

/** A fleet of which half has been upgraded. */
async function measureRounds({ app, admin }: ReleaseBench): Promise<void> {
  await reset(app);
  const fleet = await buildFleet(app, { size: MANY - DEVICES, organizations: 200 });
  console.log(`${fleet.length + DEVICES} devices`);
  const { body } = await app.call('POST', '/agent-rollouts', {
    token: admin.token,
    body: {
      version: '1.1.0',
      waves: [
        { percent: 50, soakMinutes: 600 },
        { percent: 50, soakMinutes: 60 },
      ],
    },
  });
  await inSystem(app, (tx) =>
    tx.raw(
      `insert into device_upgrades (id, attempt_id, org_id, device_id, component, from_version, target_version, state,
        rollout_id, started_at, updated_at, finished_at)
      select new_row_id(), gen_random_uuid(), d.org_id, d.id, 'agent', '1.0.0', '1.1.0', 'completed', :id, now(), now(), now()
      from devices d where rollout_place(:id, d.id) < 5000`,
      { id: body.id },
    ),
  );
  await asOwner(app.database.ownerUrl, 'vacuum analyze');
  for (const isWhole of [false, true]) {
    const times = [];
    for (let turn = 0; turn < TURNS; turn += 1) {
      const startedAt = performance.now();
      const now = new Date(Date.now() + 45 * 60_000);
      await advanceRollouts({ db: app.server.database.jobPool, log: quietLog }, { now, isWhole });
      times.push(Math.round(performance.now() - startedAt));
    }
    console.log(
      isWhole ? 'whole round' : 'look at failures',
      times.sort((a, b) => a - b)[TURNS >> 1],
      'ms, of',
      times.join(', '),
    );
  }
  const startedAt = performance.now();
  await app.call('GET', `/agent-rollouts/${body.id}`, { token: admin.token });
  console.log('GET /agent-rollouts/:id', Math.round(performance.now() - startedAt), 'ms');
}
