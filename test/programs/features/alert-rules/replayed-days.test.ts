import { expect } from 'chai';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../../src/clock.ts';
import { type Circumstances, differences } from '../../../support/alert-replay/compare.ts';
import { historyOf } from '../../../support/alert-replay/history.ts';
import { Replay, type ReplayedDevice } from '../../../support/alert-replay/replay.ts';
import { buildDevice, buildPerson, buildTenant } from '../../../support/factories.ts';
import { replayTime, type ReplayedTime } from '../../../support/replayed-time.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

/** A day takes from half a minute to a minute: `REPLAYED_DAYS=30` is a proof that one runs by itself. */
const DAYS = Number(process.env['REPLAYED_DAYS'] ?? 0.25);
const DEVICES = 10;
const BEGIN = Date.parse('2026-03-01T00:00:00Z');
const day = (days: number) => BEGIN + days * DAY_MS;
/** A part of the days has passed. */
const atShare = (share: number) => BEGIN + Math.round(share * DAYS * 48) * 30 * MINUTE_MS;

/** The servers are down for longer and for less than devices have to come back. */
const DOWN = [
  { from: atShare(0.3) + 10 * MINUTE_MS, to: atShare(0.3) + 45 * MINUTE_MS },
  { from: atShare(0.67) + 3 * MINUTE_MS, to: atShare(0.67) + 6 * MINUTE_MS },
];
const RULES_CHANGE_AT = atShare(0.4);
const SERVERS_SWAP_AT = atShare(0.47);
/** Not at full hours; one is just after servers were down. */
const PREVIEWS_AT = [0.25, 0.35, 0.53, 0.77, 1].map((share) => atShare(share) - 7 * MINUTE_MS);
/** Of planned maintenance, each night, of the first two devices. */
const NIGHT = { from: 2 * HOUR_MS, to: 4 * HOUR_MS };
const LATER_TO_RETURN = 10 * MINUTE_MS;

interface Condition {
  kind: string;
  [field: string]: unknown;
}

interface Rule {
  id: string;
  condition: Condition;
  cooldownMinutes: number;
  devices: ReplayedDevice[];
  /** Since when it is as it is. */
  changedAt: number;
  /** Covered since then. */
  joined: ReadonlyMap<string, number>;
}

describe('days of devices, replayed', function () {
  this.timeout(2_400_000);
  let database: TestDatabase;
  let app: TestApp;
  let time: ReplayedTime;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let token: string;
  let replay: Replay;
  const devices: ReplayedDevice[] = [];
  const rules: Rule[] = [];

  before(async () => {
    database = await createTestDatabase();
    time = await replayTime(database, BEGIN);
    app = await createTestApp({
      database,
      // Migrations would go by the time of the database.
      env: { AUTO_MIGRATE: 'false' },
      // Its own rounds would come at any time of the replay.
      alerts: { everyMs: 2_000_000_000, wholeEveryMs: 2_000_000_000 },
    });
    tenant = await buildTenant(app);
    await signIn();
    await begin();
  });
  after(async () => {
    await replay.stopServers();
    await app.close();
    await time.end();
    await database.drop();
  });

  /** A session does not last for weeks. */
  const signIn = async () => {
    ({ token } = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId }));
  };
  const ask = async (method: string, path: string, body: object) => {
    const answer = await app.call(method, path, { token, body });
    if (answer.status >= 300) throw new Error(JSON.stringify(answer.body));
    return answer.body;
  };
  const rule = async (condition: Condition, covered = devices, cooldownMinutes = 0) => {
    const deviceIds = covered.map(({ deviceId }) => deviceId);
    const { id } = await ask('POST', '/alert-rules', {
      orgId: tenant.orgId,
      name: `Rule ${rules.length}`,
      severity: (['critical', 'high', 'medium'] as const)[rules.length % 3],
      target: covered === devices ? { all: true } : { deviceIds },
      condition,
      cooldownMinutes,
    });
    rules.push({ id, condition, cooldownMinutes, devices: covered, changedAt: BEGIN, joined: new Map() });
  };

  async function begin() {
    for (let n = 0; n < DEVICES; n += 1) {
      const history = historyOf(n + 1, { from: BEGIN, days: DAYS, serverDown: DOWN });
      devices.push({ ...(await buildDevice(app, tenant.orgId)), node: n % 2, history });
    }
    const { data } = (await app.call('GET', `/alert-rules?orgId=${tenant.orgId}`, { token })).body;
    for (const { id } of data) await ask('PATCH', `/alert-rules/${id}`, { enabled: false });
    const above = { kind: 'metric', operator: 'greaterThanOrEquals', threshold: 90 };
    await rule({ ...above, metric: 'cpuPercent', clearThreshold: 80, forMinutes: 5 });
    await rule({ ...above, metric: 'ramPercent', operator: 'greaterThan', forMinutes: 0 });
    await rule({ ...above, metric: 'load', clearThreshold: 80, forMinutes: 15 }, devices, 120);
    await rule({ ...above, metric: 'diskPercent', clearThreshold: 85, forMinutes: 0 });
    const little = { kind: 'metric', metric: 'diskFreeBytes', operator: 'lessThan', threshold: 6 * 2 ** 30 };
    await rule({ ...little, forMinutes: 2 }, devices.slice(2, 6));
    await rule({ kind: 'offline', forMinutes: 5 }, devices.slice(0, 5));
    await rule({ kind: 'offline', forMinutes: 30 }, devices.slice(5), 60);
    await rule({ kind: 'event', source: 'Disk', count: 3, withinMinutes: 10 });
    await ask('POST', '/maintenance-windows', {
      orgId: tenant.orgId,
      name: 'Nightly',
      target: { deviceIds: devices.slice(0, 2).map(({ deviceId }) => deviceId) },
      timezone: 'UTC',
      start: '2026-03-01T02:00',
      durationMinutes: 120,
      repeat: { frequency: 'daily' },
      suppress: { alerts: true, upgrades: false },
    });
    replay = await Replay.begin(app, time, devices);
  }

  /** Rules change in between: a threshold, and the devices of another. */
  const changeRules = async () => {
    const [cpu, , , , little] = rules;
    if (cpu === undefined || little === undefined) throw new Error('There are no rules.');
    const condition = { ...cpu.condition, threshold: 93, clearThreshold: 75 };
    await ask('PATCH', `/alert-rules/${cpu.id}`, { condition });
    Object.assign(cpu, { condition, changedAt: time.now() });
    const covered = devices.slice(3, 8);
    const target = { deviceIds: covered.map(({ deviceId }) => deviceId) };
    await ask('PATCH', `/alert-rules/${little.id}`, { target });
    const joined = new Map(devices.slice(6, 8).map(({ deviceId }) => [deviceId, time.now()]));
    Object.assign(little, { devices: covered, joined });
    await replay.settleRules();
  };

  const circumstances = (of: Rule, { deviceId, history }: ReplayedDevice, to: number): Circumstances => {
    const isOffline = of.condition.kind === 'offline';
    const blind = isOffline ? DOWN.map(({ from, to: end }) => ({ from, to: end + LATER_TO_RETURN })) : [];
    const joinedAt = of.joined.get(deviceId);
    if (joinedAt !== undefined) blind.push({ from: BEGIN, to: joinedAt });
    if (devices.slice(0, 2).some((one) => one.deviceId === deviceId)) {
      for (let n = 0; n < DAYS; n += 1) {
        const end = day(n) + NIGHT.to + (isOffline ? LATER_TO_RETURN : 0);
        blind.push({ from: day(n) + NIGHT.from, to: end });
      }
    }
    return {
      from: to - 7 * DAY_MS,
      to,
      rounds: replay.rounds,
      toldAt: (at) =>
        isOffline ? at : history.toldAt(of.condition.kind === 'event' ? 'event' : 'sample', at),
      blind,
      cooldownMs: of.cooldownMinutes * MINUTE_MS,
      endsWithinMs:
        of.condition['metric'] === 'diskPercent' || of.condition['metric'] === 'diskFreeBytes'
          ? 6 * MINUTE_MS
          : MINUTE_MS,
    };
  };

  const figures: Record<string, number> = { previews: 0, compared: 0, raised: 0 };
  const found: string[] = [];

  const compare = async () => {
    await signIn();
    const now = time.now();
    for (const [n, of] of rules.entries()) {
      // A preview knows the rule as it is now.
      if (of.changedAt > BEGIN && of.changedAt > now - 8 * DAY_MS) continue;
      let count = 0;
      for (const device of of.devices) {
        const { id, condition, cooldownMinutes } = of;
        const { deviceId } = device;
        const preview = await ask('POST', '/alert-rules/preview', {
          orgId: tenant.orgId,
          target: { deviceIds: [deviceId] },
          condition,
          cooldownMinutes,
        });
        expect(preview).to.deep.include({ devices: 1, examined: 1, complete: true });
        count += preview.count;
        const previewed = preview.alerts.map(({ raisedAt, resolvedAt }: Record<string, string | null>) => ({
          raisedAt: Date.parse(raisedAt ?? ''),
          resolvedAt: resolvedAt === null ? null : Date.parse(resolvedAt ?? ''),
        }));
        const raised = replay.occurrences.filter((one) => one.ruleId === id && one.deviceId === deviceId);
        const compared = differences(previewed, raised, circumstances(of, device, now));
        figures['compared'] = (figures['compared'] ?? 0) + compared.compared;
        for (const one of compared.found) {
          found.push(
            `${new Date(now).toISOString().slice(5, 10)} rule ${n} device ${devices.indexOf(device)}: ${one}`,
          );
        }
      }
      const whole = await ask('POST', '/alert-rules/preview', {
        orgId: tenant.orgId,
        target: { deviceIds: of.devices.map(({ deviceId }) => deviceId) },
        condition: of.condition,
        cooldownMinutes: of.cooldownMinutes,
      });
      expect(whole.count).to.equal(count);
      figures['previews'] = (figures['previews'] ?? 0) + of.devices.length + 1;
    }
  };

  it('raise what a preview finds, at any of its moments', async () => {
    const steps: [at: number, step: () => Promise<void>][] = [
      ...DOWN.flatMap(({ from, to }): [number, () => Promise<void>][] => [
        [from, () => replay.stopServers()],
        [to, () => replay.startServers()],
      ]),
      [RULES_CHANGE_AT, async () => (await signIn(), await changeRules())],
      [SERVERS_SWAP_AT, () => replay.swapServers()],
      ...PREVIEWS_AT.map((at): [number, () => Promise<void>] => [at, compare]),
    ];
    const startedAt = performance.now();
    for (const [at, step] of steps.sort((a, b) => a[0] - b[0])) {
      if (at > day(DAYS)) break;
      await replay.liveUntil(at);
      await step();
    }
    figures['raised'] = replay.occurrences.length;
    // oxlint-disable-next-line no-console -- the figures of this proof
    console.log({
      ...replay.done,
      rounds: replay.rounds.length,
      ...figures,
      seconds: (performance.now() - startedAt) / 1000,
    });
    expect(found).to.deep.equal([]);
    expect(figures['compared']).to.be.above(DAYS * 5);
  });
});
