import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/clock.ts';
import { buildDevice, buildOrganization, buildPerson, buildSite, buildTenant } from '../factories.ts';
import type { ReplayedTime } from '../replayed-time.ts';
import type { TestApp } from '../test-app.ts';
import { type Circumstances, firstAtOrAfter, type Span, type Unseen } from './compare.ts';
import { Coverage } from './coverage.ts';
import { historyOf, type WrongClock } from './history.ts';
import { Replay, type ReplayedDevice } from './replay.ts';

/**
 * The devices and rules of a replay, and what people do meanwhile: they change rules, put devices into groups and take them
 * out, give them tags that a filter asks for, move one to another organization, and take one out of service for a while.
 */

const DEVICES = 13;
/** In planned maintenance, each night. */
const MAINTAINED = [0, 1];
const NIGHT = { from: 2 * HOUR_MS, to: 4 * HOUR_MS };
const LATER_TO_RETURN = 10 * MINUTE_MS;
/** The clock of this one is wrong at times. */
const WRONG_CLOCK = 12;
const BEHIND_MINUTES = 90;
/** A server refuses figures that are further ahead. */
const ACCEPTED_MINUTES = 5;
/** After this time without figures, a device is judged by its heartbeats. */
const WITHOUT_SAMPLES_MINUTES = 15;

interface Condition {
  kind: string;
  [field: string]: unknown;
}

export interface ReplayedRule {
  id: string;
  condition: Condition;
  target: object;
  cooldownMinutes: number;
  coverage: Coverage;
  /** It had another condition before. */
  changedAt?: number;
}

export type Step = [at: number, step: () => Promise<void>];

export class Scene {
  readonly #app: TestApp;
  readonly #time: ReplayedTime;
  readonly #days: number;
  readonly #begin: number;
  readonly #tenant: Awaited<ReturnType<typeof buildTenant>>;
  /** The servers are down, for longer and for less than devices have to come back. */
  readonly #down: readonly Span[];
  readonly #wrongClocks: readonly WrongClock[];
  #token = '';
  #replay: Replay | undefined;
  readonly devices: ReplayedDevice[] = [];
  readonly rules: ReplayedRule[] = [];
  /** Those of the organization of the rules. */
  readonly #ofOrganization: Coverage;
  readonly #inService: Coverage;

  private constructor(
    app: TestApp,
    time: ReplayedTime,
    days: number,
    tenant: Awaited<ReturnType<typeof buildTenant>>,
  ) {
    this.#app = app;
    this.#time = time;
    this.#days = days;
    this.#begin = time.now();
    this.#tenant = tenant;
    this.#down = [
      { from: this.at(0.3, 10), to: this.at(0.3, 45) },
      { from: this.at(0.67, 3), to: this.at(0.67, 6) },
    ];
    const minutesOf = (share: number, minutes: number) => (this.at(share, minutes) - this.#begin) / MINUTE_MS;
    this.#wrongClocks = [
      // As if it were right, refused, and dated into the past.
      { from: minutesOf(0.12, 0), to: minutesOf(0.12, 40), aheadMinutes: 3 },
      { from: minutesOf(0.4, 7), to: minutesOf(0.4, 57), aheadMinutes: 120 },
      { from: minutesOf(0.75, 0), to: minutesOf(0.75, 60), aheadMinutes: -BEHIND_MINUTES },
    ];
    this.#ofOrganization = new Coverage(this.#begin);
    this.#inService = new Coverage(this.#begin);
  }

  static async begin(
    app: TestApp,
    time: ReplayedTime,
    { days, seed }: { days: number; seed: number },
  ): Promise<Scene> {
    const scene = new Scene(app, time, days, await buildTenant(app));
    await scene.signIn();
    await scene.#begins(seed);
    return scene;
  }

  get orgId(): string {
    return this.#tenant.orgId;
  }

  get replay(): Replay {
    if (this.#replay === undefined) throw new Error('The scene has not begun.');
    return this.#replay;
  }

  /** When a part of the days has passed, at a full half hour, and some minutes. */
  at(share: number, minutes = 0): number {
    return this.#begin + Math.round(share * this.#days * 48) * 30 * MINUTE_MS + minutes * MINUTE_MS;
  }

  /** A session does not last for weeks. */
  async signIn(): Promise<void> {
    const { partnerId } = this.#tenant;
    ({ token: this.#token } = await buildPerson(this.#app, { scope: 'partner', partnerId }));
  }

  async ask(method: string, path: string, body?: object) {
    const answer = await this.#app.call(method, path, { token: this.#token, body });
    if (answer.status >= 300) throw new Error(JSON.stringify(answer.body));
    return answer.body;
  }

  #device(place: number): ReplayedDevice {
    const device = this.devices[place];
    if (device === undefined) throw new Error(`There is no device ${place}.`);
    return device;
  }

  /** The devices that the rule covers now. */
  coveredBy(rule: ReplayedRule): ReplayedDevice[] {
    return this.devices.filter((device) =>
      [rule.coverage, this.#ofOrganization, this.#inService].every((one) => one.has(device)),
    );
  }

  /** Since when the rule does not cover a device any more that it once did. */
  leftAt(rule: ReplayedRule, device: ReplayedDevice): number | undefined {
    const times = [rule.coverage, this.#inService].map((one) => one.leftAt(device) ?? 0);
    const last = Math.max(...times);
    return last === 0 ? undefined : last;
  }

  async #rule(condition: Condition, target: object, coverage: Coverage, cooldownMinutes = 0): Promise<void> {
    const { id } = await this.ask('POST', '/alert-rules', {
      orgId: this.#tenant.orgId,
      name: `Rule ${this.rules.length}`,
      severity: (['critical', 'high', 'medium'] as const)[this.rules.length % 3],
      target,
      condition,
      cooldownMinutes,
    });
    this.rules.push({ id, condition, target, cooldownMinutes, coverage });
  }

  readonly #steps: Step[] = [];
  /** All that people and operators do, in order. */
  get steps(): readonly Step[] {
    return this.#steps.toSorted((a, b) => a[0] - b[0]);
  }

  /** People do this; servers take notice. */
  #plan(share: number, minutes: number, act: (now: number) => Promise<unknown>): void {
    const at = this.at(share, minutes);
    this.#steps.push([
      at,
      async () => {
        await this.signIn();
        await act(at);
        await this.replay.settleChanges();
      },
    ]);
  }

  async #begins(seed: number): Promise<void> {
    const { orgId, partnerId } = this.#tenant;
    const elsewhere = await buildOrganization(this.#app, partnerId);
    await buildSite(this.#app, elsewhere);
    for (let n = 0; n < DEVICES; n += 1) {
      const history = historyOf(seed * DEVICES + n, {
        from: this.#begin,
        days: this.#days,
        serverDown: this.#down,
        wrongClocks: n === WRONG_CLOCK ? this.#wrongClocks : [],
      });
      const comesLater = n === 10;
      const device = await buildDevice(this.#app, comesLater ? elsewhere : orgId);
      this.devices.push({ ...device, node: n % 2, history });
      if (!comesLater) this.#ofOrganization.turn(device, true, this.#begin);
      this.#inService.turn(device, true, this.#begin);
    }
    const { data } = await this.ask('GET', `/alert-rules?orgId=${orgId}`);
    for (const { id } of data) await this.ask('PATCH', `/alert-rules/${id}`, { enabled: false });
    await this.#makeRules();
    await this.ask('POST', '/maintenance-windows', {
      orgId,
      name: 'Nightly',
      target: { deviceIds: MAINTAINED.map((n) => this.#device(n).deviceId) },
      timezone: 'UTC',
      start: new Date(this.#begin + NIGHT.from).toISOString().slice(0, 16),
      durationMinutes: (NIGHT.to - NIGHT.from) / MINUTE_MS,
      repeat: { frequency: 'daily' },
      suppress: { alerts: true, upgrades: false },
    });
    this.#planOutages();
    this.#planDeviceChanges();
    this.#replay = await Replay.begin(this.#app, this.#time, this.devices);
    await this.#replay.settleChanges();
  }

  async #makeRules(): Promise<void> {
    const all = (from = 0, to = DEVICES) => this.devices.slice(from, to);
    const ids = (devices: readonly ReplayedDevice[]) => devices.map(({ deviceId }) => deviceId);
    const everywhere = new Coverage(this.#begin, all());
    const above = { kind: 'metric', operator: 'greaterThanOrEquals', threshold: 90 };
    const toAll = (condition: Condition, cooldownMinutes = 0) =>
      this.#rule(condition, { all: true }, everywhere, cooldownMinutes);
    const toSome = (condition: Condition, devices: readonly ReplayedDevice[], cooldownMinutes = 0) =>
      this.#rule(condition, { deviceIds: ids(devices) }, new Coverage(this.#begin, devices), cooldownMinutes);
    await toAll({ ...above, metric: 'cpuPercent', clearThreshold: 80, forMinutes: 5 });
    await toAll({ ...above, metric: 'ramPercent', operator: 'greaterThan', forMinutes: 0 });
    await toAll({ ...above, metric: 'load', clearThreshold: 80, forMinutes: 15 }, 120);
    await toAll({ ...above, metric: 'diskPercent', clearThreshold: 85, forMinutes: 0 });
    const little = { kind: 'metric', metric: 'diskFreeBytes', operator: 'lessThan', threshold: 6 * 2 ** 30 };
    await toSome({ ...little, forMinutes: 2 }, all(2, 6));
    await toSome({ kind: 'offline', forMinutes: 5 }, all(0, 5));
    await toSome({ kind: 'offline', forMinutes: 30 }, all(5, 10), 60);
    await toAll({ kind: 'event', source: 'Disk', count: 3, withinMinutes: 10 });
    this.#planRuleChanges();
    await this.#makeGroups(above);
  }

  /** The threshold of one rule, and the devices of another. */
  #planRuleChanges(): void {
    const [cpu, , , , little] = this.rules;
    if (cpu === undefined || little === undefined) throw new Error('There are no rules.');
    this.#plan(0.4, 0, async (now) => {
      const condition = { ...cpu.condition, threshold: 93, clearThreshold: 75 };
      await this.ask('PATCH', `/alert-rules/${cpu.id}`, { condition });
      Object.assign(cpu, { condition, changedAt: now });
      const devices = this.devices.slice(3, 8);
      const target = { deviceIds: devices.map(({ deviceId }) => deviceId) };
      await this.ask('PATCH', `/alert-rules/${little.id}`, { target });
      little.target = target;
      for (const device of this.devices) {
        const isIn = devices.includes(device);
        if (little.coverage.has(device) !== isIn) little.coverage.turn(device, isIn, now);
      }
    });
  }

  /** Rules for a group, a dynamic group, and a filter. */
  async #makeGroups(above: Condition): Promise<void> {
    const { orgId } = this.#tenant;
    const group = async (name: string, places: readonly number[]) => {
      const devices = places.map((place) => this.#device(place));
      const { id } = await this.ask('POST', '/groups', {
        orgId,
        name,
        deviceIds: devices.map(({ deviceId }) => deviceId),
      });
      const coverage = new Coverage(this.#begin, devices);
      const join = (share: number, minutes: number, place: number) =>
        this.#plan(share, minutes, async (now) => {
          const device = this.#device(place);
          await this.ask('POST', `/groups/${id}/devices`, { deviceIds: [device.deviceId] });
          coverage.turn(device, true, now);
        });
      const leave = (share: number, minutes: number, place: number) =>
        this.#plan(share, minutes, async (now) => {
          const device = this.#device(place);
          await this.ask('POST', `/groups/${id}/devices/remove`, { deviceIds: [device.deviceId] });
          coverage.turn(device, false, now);
        });
      return { target: { groupIds: [id] }, coverage, join, leave };
    };
    const swapping = await group('Swapping', [7, 8, 11]);
    await this.#rule(
      { ...above, metric: 'swapPercent', clearThreshold: 85, forMinutes: 5 },
      swapping.target,
      swapping.coverage,
    );
    swapping.leave(0.2, 8, 8);
    swapping.join(0.45, 11, 9);
    swapping.join(0.6, 2, 8);
    swapping.leave(0.85, 4, 7);
    const away = await group('Away', [11, 12]);
    await this.#rule({ kind: 'offline', forMinutes: 10 }, away.target, away.coverage);
    away.leave(0.35, 9, 12);
    away.join(0.55, 1, 12);
    // It moves to the organization a little earlier.
    away.join(0.5, 14, 10);
    await this.#makeFilter();
  }

  async #makeFilter(): Promise<void> {
    const { orgId } = this.#tenant;
    const tag = async (place: number, tags: string[]) =>
      this.ask('PATCH', `/devices/${this.#device(place).deviceId}`, { tags });
    const { id: filterId } = await this.ask('POST', '/filters', {
      orgId,
      name: 'Watched',
      conditions: {
        operator: 'AND',
        conditions: [{ field: 'tags', operator: 'hasAny', value: ['watched'] }],
      },
    });
    const { id } = await this.ask('POST', '/groups', { orgId, name: 'Watched', type: 'dynamic', filterId });
    const members = [5, 6, 11];
    for (const place of members) await tag(place, ['watched']);
    const watched = new Coverage(
      this.#begin,
      members.map((place) => this.#device(place)),
    );
    const turn = (share: number, minutes: number, place: number, isIn: boolean) =>
      this.#plan(share, minutes, async (now) => {
        await tag(place, isIn ? ['watched'] : []);
        watched.turn(this.#device(place), isIn, now);
      });
    const idle = { kind: 'metric', metric: 'cpuPercent', operator: 'lessThan', threshold: 30, forMinutes: 4 };
    await this.#rule(idle, { groupIds: [id] }, watched);
    await this.#rule({ kind: 'event', source: 'Disk', count: 2, withinMinutes: 15 }, { filterId }, watched);
    turn(0.22, 5, 2, true);
    turn(0.33, 16, 6, false);
    turn(0.58, 3, 6, true);
    turn(0.63, 9, 5, false);
    turn(0.8, 6, 5, true);
  }

  #planOutages(): void {
    for (const { from, to } of this.#down) {
      this.#steps.push([from, () => this.replay.stopServers()], [to, () => this.replay.startServers()]);
    }
    this.#steps.push([this.at(0.47), () => this.replay.swapServers()]);
  }

  #planDeviceChanges(): void {
    const { orgId, siteId } = this.#tenant;
    const moving = this.#device(10);
    this.#plan(0.5, 12, async (now) => {
      await this.ask('POST', `/devices/${moving.deviceId}/move`, { orgId, siteId });
      this.#ofOrganization.turn(moving, true, now);
      await this.replay.reconnect(moving);
    });
    const retired = this.#device(11);
    for (const [outAt, backAt] of [
      [0.26, 0.42],
      [0.7, 0.82],
    ] as const) {
      this.#plan(outAt, 13, async (now) => {
        await this.ask('DELETE', `/devices/${retired.deviceId}`);
        this.#inService.turn(retired, false, now);
        await this.replay.takeOutOfService(retired);
      });
      this.#plan(backAt, 18, async (now) => {
        await this.ask('POST', `/devices/${retired.deviceId}/restore`);
        this.#inService.turn(retired, true, now);
        await this.replay.putBackInService(retired);
      });
    }
  }

  /** What makes a preview of a rule about one device, up to `to`, differ from what was raised. */
  circumstances(rule: ReplayedRule, device: ReplayedDevice, to: number): Circumstances {
    const { condition, coverage, cooldownMinutes, changedAt } = rule;
    const { history } = device;
    const isOffline = condition.kind === 'offline';
    const isOfVolumes = condition['metric'] === 'diskPercent' || condition['metric'] === 'diskFreeBytes';
    const unseen: Unseen[] = [
      ...coverage.unseenOf(device),
      ...this.#inService
        .unseenOf(device)
        .map((span): Unseen => (condition.kind === 'metric' ? { ...span, anew: true } : span)),
      ...this.#ofOrganization.unseenOf(device).map((span) => ({ ...span, anew: true as const })),
      ...this.#maintenance(device, isOffline),
    ];
    if (isOffline) {
      unseen.push(...this.#down.map(({ from, to: end }) => ({ from, to: end + LATER_TO_RETURN })));
    }
    if (changedAt !== undefined) {
      // Minutes beyond the former threshold count, and the last of them are told with a message of five minutes.
      const minutes = Number(condition['forMinutes']) + 6;
      unseen.push({ from: this.#begin, to: changedAt + minutes * MINUTE_MS, anew: true });
    }
    return {
      from: to - 7 * DAY_MS,
      to,
      rounds: this.replay.rounds,
      toldAt: (at) => (isOffline ? at : history.toldAt(condition.kind === 'event' ? 'event' : 'sample', at)),
      endToldAt: isOffline ? (at) => this.#returnSeenAt(device, at) : undefined,
      isSeenAt: isOffline ? (round) => this.#isAwayAt(device, round) : undefined,
      unseen,
      unsure: this.devices.indexOf(device) === WRONG_CLOCK ? this.#unsure(condition) : [],
      countsEach: isOffline,
      cooldownMs: cooldownMinutes * MINUTE_MS,
      endsWithinMs: isOfVolumes ? 6 * MINUTE_MS : MINUTE_MS,
      // A preview waits for five samples without the volume.
      endsEarlierMs: isOfVolumes ? 5 * MINUTE_MS : 0,
      hasPart: isOfVolumes ? (part, at) => history.hasVolume(part, at) : undefined,
    };
  }

  #maintenance(device: ReplayedDevice, isOffline: boolean): Unseen[] {
    if (!MAINTAINED.includes(this.devices.indexOf(device))) return [];
    return Array.from({ length: Math.ceil(this.#days) }, (_, n) => {
      const midnight = this.#begin + n * DAY_MS;
      const end = midnight + NIGHT.to + (isOffline ? LATER_TO_RETURN : 0);
      return { from: midnight + NIGHT.from, to: end };
    });
  }

  /**
   * The times that a clock which is behind gives to figures, and those in which it is. And those in which a clock is so far
   * ahead that heartbeats are judged: what has begun by them goes on by samples, until samples alone would have met it.
   */
  #unsure({ kind, metric, forMinutes }: Condition): Span[] {
    if (kind !== 'metric') return [];
    const spanOf = (from: number, to: number) => ({
      from: this.#begin + from * MINUTE_MS,
      to: this.#begin + to * MINUTE_MS,
    });
    const isHeard = metric === 'cpuPercent' || metric === 'ramPercent' || metric === 'diskPercent';
    return this.#wrongClocks.flatMap(({ from, to, aheadMinutes }) => {
      if (aheadMinutes < 0) return [spanOf(from + aheadMinutes - 5, to + 10)];
      if (aheadMinutes <= ACCEPTED_MINUTES || !isHeard) return [];
      // Five samples come together, so that the last of before were told up to a minute earlier.
      return [spanOf(from - 1 + WITHOUT_SAMPLES_MINUTES, to + Number(forMinutes) + 6)];
    });
  }

  #isAwayAt(device: ReplayedDevice, at: number): boolean {
    const last = this.replay.turnsOf(device).findLast((turn) => turn.at <= at);
    return (
      last?.state !== 'connected' ||
      this.#down.some(({ from, to }) => at >= from && at <= to + LATER_TO_RETURN)
    );
  }

  /** The first time from then on at which a round found the device back for long enough, if it was ever. */
  #returnSeenAt(device: ReplayedDevice, at: number): number {
    const STABLE_MS = 2 * MINUTE_MS;
    const turns = this.replay.turnsOf(device);
    for (const [place, turn] of turns.entries()) {
      if (turn.state !== 'connected' || turn.at + STABLE_MS < at) continue;
      const until = turns[place + 1]?.at ?? Number.POSITIVE_INFINITY;
      if (firstAtOrAfter(this.replay.rounds, turn.at + STABLE_MS) < until) return turn.at + STABLE_MS;
    }
    return at;
  }
}
