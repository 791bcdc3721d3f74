import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { saveCredentials } from '../../../src/agent/core/settings.ts';
import { openPool } from '../../../src/platform/db/pool.ts';
import { type AgentProgram, startAgent } from '../../support/agent-program.ts';
import { buildTenant, type Ground, signIn } from '../../support/factories.ts';
import { killProgram } from '../../support/program.ts';
import type { TestRedis } from '../../support/redis.ts';
import type { TestDatabase } from '../../support/test-postgres.ts';
import { effectsIn } from '../e2e/faults/support/effects.ts';
import { type FleetDevice, insertFleet } from '../e2e/faults/support/fleet.ts';
import type { OwnPostgres } from '../e2e/faults/support/own-postgres.ts';
import { auditTrail, type Levels, ledger, levelsBetween, levelsNow, openCommands } from './at-rest.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { startLoad } from './load.ts';
import { describeFault, type Fault, type Round } from './schedule.ts';
import { type SimulatedAgent, simulateAgent } from './simulated-agents.ts';
import type { RunRecord, View } from './violations.ts';
import { type WatchingDashboard, watchDevices } from './watching-dashboard.ts';

export interface RunOptions {
  rounds: Round[];
  database: Pick<TestDatabase, 'ownerUrl' | 'appUrl'>;
  /** The same database as the servers are told of it, where they do not reach it over links that can fail. */
  toldDatabase?: Pick<TestDatabase, 'ownerUrl' | 'appUrl'>;
  redis: TestRedis;
  /** The same database as a program that can be stopped, where the rounds do that. */
  postgres?: Pick<OwnPostgres, 'stop' | 'start'>;
  simulatedAgents: number;
  realAgents: number;
  commandsPerSecond: number;
  queriesPerSecond: number;
  /** Between two moments in which one simulated agent leaves or comes back. */
  churnMs: number;
  /** How long after the last fault everything may take to be at rest. */
  restMs: number;
  tell: (line: string) => void;
}

export interface RunOutcome {
  record: RunRecord;
  /** For a table: what was done, and how often. */
  counts: [string, number][];
}

const LOOK_EACH_MS = 250;
/** Of the simulated agents, so many may be away at a time. */
const AWAY_SHARE = 0.25;
/** An access token is good for 15 minutes. */
const SIGN_IN_EACH_MS = 300_000;

export async function run(options: RunOptions): Promise<RunOutcome> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-fault-suite-'));
  const closing: (() => unknown)[] = [() => rm(folder, { recursive: true, force: true })];
  try {
    return await runIn(folder, options, (close) => void closing.unshift(close));
  } finally {
    for (const close of closing) await close();
  }
}

async function runIn(
  folder: string,
  options: RunOptions,
  onEnd: (close: () => unknown) => void,
): Promise<RunOutcome> {
  const { database, toldDatabase, redis, postgres, rounds, restMs, tell } = options;
  const { ownerUrl } = database;
  const since = performance.now();
  const say = (line: string) =>
    tell(`${((performance.now() - since) / 1000).toFixed(1).padStart(6)} s  ${line}`);
  const cluster = await startCluster({ database, toldDatabase, redis, postgres, folder, tell: say });
  onEnd(() => cluster.close());
  const person = await somebody(cluster, database);
  onEnd(person.forget);

  const effects = effectsIn(folder);
  const happened: string[] = [];
  const fleet = await insertFleet(ownerUrl, person.orgId, options.simulatedAgents + options.realAgents);
  const simulated = fleet
    .slice(0, options.simulatedAgents)
    .map((device) => simulateAgent(device, cluster.balancer.url, (effectId) => happened.push(effectId)));
  onEnd(() => Promise.all(simulated.map((agent) => agent.stop())));
  const real = fleet.slice(options.simulatedAgents);
  for (const device of real) {
    const program = await startRealAgent(device, {
      server: cluster.balancer.url,
      folder,
      orgId: person.orgId,
    });
    onEnd(() => killProgram(program));
  }
  const dashboards = (['north', 'south'] as const).map((name) =>
    watchDevices(`the dashboard on ${name}`, cluster.urlOf(name), person.token),
  );
  onEnd(() => dashboards.forEach((dashboard) => dashboard.close()));

  const realIds = real.map(({ deviceId }) => deviceId);
  const overdue: string[] = [];
  const views: View[] = [];
  const agree = async (moment: string) => {
    const begun = performance.now();
    const now = await agreement({ cluster, token: person.token, simulated, realIds, dashboards, restMs });
    views.push(...now.views.map((view) => ({ ...view, moment })));
    overdue.push(...now.overdue.map((what) => `${moment}: ${what}`));
    say(`${moment}: ${now.isAgreed ? 'all agree' : 'NOT all agree'} after ${secondsSince(begun)}`);
    if (now.isAgreed) return;
    for (const { reader, online, connected } of now.views) {
      say(`  ${reader} shows ${online.length} of ${connected.length} as online`);
    }
    for (const what of now.overdue) say(`  ${what}`);
  };
  await agree('before the first fault');
  const before = await levelsNow(cluster, ownerUrl);

  const load = startLoad({
    cluster,
    token: person.token,
    effects,
    deviceIds: fleet.map(({ deviceId }) => deviceId),
    queriedIds: simulated.map(({ deviceId }) => deviceId),
    commandsPerSecond: options.commandsPerSecond,
    queriesPerSecond: options.queriesPerSecond,
  });
  const stopChurn = startChurn(simulated, options.churnMs);
  for (const round of rounds) await play(round, cluster, say);
  stopChurn();
  await load.stop();
  say('the last fault is mended, and nothing more is asked');
  await agree('with some agents away');

  for (const agent of simulated) agent.comeBack();
  const begun = performance.now();
  const open = await waitFor(
    () => openCommands(ownerUrl),
    (ids) => ids.length === 0,
    restMs,
  );
  say(`${open.length} commands are open after ${secondsSince(begun)}`);
  await agree('with all agents back');
  const after = await levelsNow(cluster, ownerUrl);

  const entries = await ledger(ownerUrl);
  const audit = await auditTrail(ownerUrl, database.appUrl, folder, restMs);
  const record: RunRecord = {
    posts: load.posts,
    ledger: entries,
    effects: [...happened, ...(await effects.happened())],
    queries: load.queries,
    views,
    frameFaults: dashboards.flatMap((dashboard) => dashboard.faults()),
    serverFaults: cluster.serverFaults(),
    audit,
    levels: levelsBetween(before, after),
    overdue,
  };
  return { record, counts: countsOf(record, { rounds, load, dashboards, cluster, before, after }) };
}

/** Begins and mends the faults of a round, each at its time. */
async function play({ faults, pauseMs }: Round, cluster: Cluster, say: (line: string) => void) {
  await Promise.all(
    faults.map(async (fault) => {
      await delay(fault.startsMs);
      say(describeFault(fault));
      const mend = await cluster.begin(fault);
      await delay(fault.lastsMs);
      await mend();
    }),
  );
  await delay(pauseMs);
}

/** One simulated agent after the other leaves or comes back, so that lists have something to get wrong. */
function startChurn(agents: SimulatedAgent[], everyMs: number): () => void {
  let turn = 0;
  const timer = setInterval(() => {
    const away = agents.filter((agent) => !agent.isPresent());
    if (away.length >= agents.length * AWAY_SHARE) away[turn++ % away.length]?.comeBack();
    else agents[(turn += 7) % agents.length]?.leave();
  }, everyMs);
  return () => clearInterval(timer);
}

/** Waits until every agent that wants to be connected is, and until every reader shows just those. */
async function agreement(options: {
  cluster: Cluster;
  token: () => string;
  simulated: SimulatedAgent[];
  realIds: string[];
  dashboards: WatchingDashboard[];
  restMs: number;
}): Promise<{ isAgreed: boolean; views: Omit<View, 'moment'>[]; overdue: string[] }> {
  const { cluster, token, simulated, realIds, dashboards, restMs } = options;
  const wanted = [
    ...simulated.filter((agent) => agent.isPresent()).map(({ deviceId }) => deviceId),
    ...realIds,
  ].sort();
  const look = async () => {
    const rest = await onlineOverRest(cluster, token());
    const readers = [
      { reader: 'REST', online: rest },
      ...dashboards.map((one) => ({ reader: one.name, online: one.online() })),
    ];
    return {
      readers,
      waiting: simulated.filter((agent) => agent.isPresent() && !agent.isConnected()).length,
    };
  };
  const isWell = ({ readers, waiting }: Awaited<ReturnType<typeof look>>) =>
    waiting === 0 && readers.every(({ online }) => online?.toSorted().join() === wanted.join());
  const found = await waitFor(look, isWell, restMs);
  const views: Omit<View, 'moment'>[] = [];
  const overdue = found.waiting === 0 ? [] : [`${found.waiting} agents have not come back`];
  for (const { reader, online } of found.readers) {
    if (online === undefined) overdue.push(`${reader} has no list`);
    else views.push({ reader, online, connected: wanted });
  }
  return { isAgreed: isWell(found), views, overdue };
}

async function onlineOverRest(cluster: Cluster, token: string): Promise<string[] | undefined> {
  const answer = await cluster
    .server('east')
    .call('GET', '/devices?limit=100&status=online', { token })
    .catch(() => undefined);
  if (answer?.status !== 200) return undefined;
  return (answer.body.data as { id: unknown }[]).map(({ id }) => String(id));
}

/** The last value that was read, whether it fits or the time is over. */
async function waitFor<T>(read: () => Promise<T>, fits: (value: T) => boolean, withinMs: number): Promise<T> {
  const until = performance.now() + withinMs;
  for (;;) {
    const value = await read();
    if (fits(value) || performance.now() > until) return value;
    await delay(LOOK_EACH_MS);
  }
}

/** Somebody who may do everything with the devices, and who signs in again before the token ends. */
async function somebody(cluster: Cluster, database: RunOptions['database']) {
  const pool = openPool(database.appUrl, { max: 2, name: 'muster-test' });
  try {
    const ground: Ground = {
      call: (...request) => cluster.server('north').call(...request),
      log: [],
      server: { database: { pool } },
    };
    const { admin, orgId } = await buildTenant(ground);
    let { token } = admin;
    const timer = setInterval(() => {
      // Nobody can sign in while Redis is away; the token lasts until the next time.
      signIn(ground, admin.email).then(
        (fresh) => (token = fresh),
        () => {},
      );
    }, SIGN_IN_EACH_MS);
    return { orgId, token: () => token, forget: () => clearInterval(timer) };
  } finally {
    // Later sign-ins go over HTTP.
    await pool.destroy();
  }
}

async function startRealAgent(
  device: FleetDevice,
  { server, folder, orgId }: { server: string; folder: string; orgId: string },
): Promise<AgentProgram> {
  const dataDir = path.join(folder, `agent-${device.deviceId}`);
  const enrolledAt = new Date().toISOString();
  await saveCredentials(dataDir, { ...device, orgId, server, heartbeatSeconds: 60, enrolledAt });
  return startAgent(['run', '--json', '--data-dir', dataDir]);
}

function countsOf(
  record: RunRecord,
  more: {
    rounds: Round[];
    load: { counts: Map<string, number> };
    dashboards: WatchingDashboard[];
    cluster: Cluster;
    before: Levels;
    after: Levels;
  },
): [string, number][] {
  const faults: Fault[] = more.rounds.flatMap((round) => round.faults);
  const statuses = new Map<string, number>();
  for (const { status } of record.ledger) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const sorted = (counts: Map<string, number>, label: string): [string, number][] =>
    [...counts.keys()].sort().map((what) => [`${label}${what}`, counts.get(what) ?? 0]);
  return [
    ['faults', faults.length],
    ['commands wanted', record.posts.length],
    ['commands acknowledged', record.posts.filter(({ acknowledged }) => acknowledged.length > 0).length],
    [
      'acknowledged more than once',
      record.posts.filter(({ acknowledged }) => acknowledged.length > 1).length,
    ],
    ['commands in the ledger', record.ledger.length],
    ...sorted(statuses, '  '),
    ['effects', record.effects.length],
    ['live queries answered with rows', record.queries.length],
    ['audit entries of commands', record.audit.commandIds.length],
    ['lists read by dashboards', more.dashboards.reduce((sum, dashboard) => sum + dashboard.lists(), 0)],
    ...sorted(more.load.counts, 'answers: '),
    ...sorted(more.cluster.logged(), 'logged: '),
    ...sorted(more.before, 'before: '),
    ...sorted(more.after, 'after: '),
  ];
}

const secondsSince = (begun: number) => `${((performance.now() - begun) / 1000).toFixed(1)} s`;
