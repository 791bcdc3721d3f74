import { expect } from 'chai';
import { MINUTE_MS } from '../../../../src/clock.ts';
import {
  differences,
  type PreviewedAlert,
  WHOLE_EVERY_MS,
  withCooled,
} from '../../../support/alert-replay/compare.ts';
import type { ReplayedDevice } from '../../../support/alert-replay/replay.ts';
import { type ReplayedRule, Scene, type Step } from '../../../support/alert-replay/scene.ts';
import { replayTime, type ReplayedTime } from '../../../support/replayed-time.ts';
import { createTestApp, NEVER_DUE, type TestApp } from '../../../support/test-app.ts';
import { asOwner, createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

/** A day takes some 15 seconds: `REPLAYED_DAYS=30` is a proof that one runs by itself, with a seed of one's own. */
const DAYS = Number(process.env['REPLAYED_DAYS'] ?? 0.25);
const SEED = Number(process.env['REPLAYED_SEED'] ?? 1);
const BEGIN = Date.parse('2026-03-01T00:00:00Z');
/** The shares of the days after which previews are asked for: not at full hours, and one just after servers were down. */
const PREVIEWS_AT = DAYS < 1 ? [0.35, 0.53, 1] : [0.25, 0.35, 0.53, 0.77, 1];
/** A device that has left a rule is noticed by a round of everything, and counted in its alerts before that. */
const LEFT_WITHIN_MS = WHOLE_EVERY_MS + MINUTE_MS;

describe('days of devices, replayed', function () {
  this.timeout(2_400_000);
  let database: TestDatabase;
  let app: TestApp;
  let time: ReplayedTime;
  let scene: Scene;

  before(async () => {
    database = await createTestDatabase();
    // Its recurring jobs would come all day long, as its time flies. The replay runs those that matter here.
    await asOwner(database.ownerUrl, NEVER_DUE);
    time = await replayTime(database, BEGIN);
    app = await createTestApp({
      database,
      // Migrations would go by the time of the database.
      env: { AUTO_MIGRATE: 'false' },
      // Its own rounds would come at any time of the replay.
      alerts: { everyMs: 2_000_000_000, wholeEveryMs: 2_000_000_000 },
    });
    scene = await Scene.begin(app, time, { days: DAYS, seed: SEED });
  });
  after(async () => {
    await scene.replay.stopServers();
    await app.close();
    await time.end();
    await database.drop();
  });

  const figures = { previews: 0, compared: 0, raised: 0 };
  const found: string[] = [];
  const note = (of: ReplayedRule, device: ReplayedDevice, difference: string) => {
    const when = new Date(time.now()).toISOString().slice(5, 16);
    const place = scene.devices.indexOf(device);
    found.push(`${when} rule ${scene.rules.indexOf(of)} device ${place}: ${difference}`);
  };

  const preview = (of: ReplayedRule, target: object, cooldownMinutes = of.cooldownMinutes) => {
    figures.previews += 1;
    const { condition } = of;
    const { orgId } = scene;
    return scene.ask('POST', '/alert-rules/preview', { orgId, target, condition, cooldownMinutes });
  };

  const alertsOf = (
    { condition }: ReplayedRule,
    alerts: Record<string, string | null>[],
  ): PreviewedAlert[] => {
    const isOfVolumes = condition['metric'] === 'diskPercent' || condition['metric'] === 'diskFreeBytes';
    return alerts.map(({ raisedAt, resolvedAt, what }) => ({
      part: isOfVolumes ? what?.split(': ')[0] : undefined,
      raisedAt: Date.parse(raisedAt ?? ''),
      resolvedAt: resolvedAt === null ? null : Date.parse(resolvedAt ?? ''),
    }));
  };

  const compare = async (of: ReplayedRule, device: ReplayedDevice): Promise<number> => {
    const { deviceId } = device;
    const { count, alerts, ...more } = await preview(of, { deviceIds: [deviceId] });
    expect(more).to.deep.include({ devices: 1, examined: 1, complete: true });
    let previewed = alertsOf(of, alerts);
    if (of.cooldownMinutes > 0) {
      const uncooled = await preview(of, { deviceIds: [deviceId] }, 0);
      previewed = withCooled(previewed, alertsOf(of, uncooled.alerts));
    }
    const raised = scene.replay.occurrences.filter(
      (one) => one.ruleId === of.id && one.deviceId === deviceId,
    );
    const compared = differences(previewed, raised, scene.circumstances(of, device, time.now()));
    figures.compared += compared.compared;
    for (const one of compared.found) note(of, device, one);
    return count;
  };

  /** What stood about a device that has left the rule was resolved, and nothing came after that. */
  const compareLeft = (of: ReplayedRule, device: ReplayedDevice) => {
    const leftAt = scene.leftAt(of, device);
    const end = leftAt === undefined ? Number.POSITIVE_INFINITY : leftAt + LEFT_WITHIN_MS;
    if (time.now() <= end) return;
    for (const one of scene.replay.occurrences) {
      if (one.ruleId !== of.id || one.deviceId !== device.deviceId) continue;
      if (one.resolvedAt === null || one.resolvedAt > end) note(of, device, 'an alert stays');
    }
  };

  const compareAll = async () => {
    await scene.signIn();
    for (const of of scene.rules) {
      const covered = scene.coveredBy(of);
      let count = 0;
      for (const device of covered) count += await compare(of, device);
      for (const device of scene.devices) if (!covered.includes(device)) compareLeft(of, device);
      const whole = await preview(of, of.target);
      expect(whole).to.deep.include({ count, devices: covered.length });
    }
  };

  it('raise what a preview finds, at any of its moments', async () => {
    const steps: Step[] = [
      ...scene.steps,
      ...PREVIEWS_AT.map((share): Step => [scene.at(share, -7), compareAll]),
    ];
    const startedAt = performance.now();
    for (const [at, step] of steps.sort((a, b) => a[0] - b[0])) {
      if (at > scene.at(1)) break;
      await scene.replay.liveUntil(at);
      await step();
    }
    figures.raised = scene.replay.occurrences.length;
    // oxlint-disable-next-line no-console -- the figures of this proof
    console.log({
      seed: SEED,
      ...scene.replay.done,
      rounds: scene.replay.rounds.length,
      ...figures,
      seconds: (performance.now() - startedAt) / 1000,
    });
    expect(found.join('\n')).to.equal('');
    expect(figures.compared).to.be.above(DAYS * 5);
  });
});
