import { HOUR_MS, MINUTE_MS } from '../../../src/clock.ts';
import { WatchedFilters } from '../../../src/features/alert-rules/watched-filters.ts';
import { MaintenanceRounds } from '../../../src/features/maintenance-windows/maintenance-window.work.ts';
import { packSamples } from '../../../src/features/metrics/metric.job.ts';
import type { EnrolledDevice } from '../factories.ts';
import { quietLog } from '../quiet-log.ts';
import type { ReplayedTime } from '../replayed-time.ts';
import type { TestApp } from '../test-app.ts';
import { type Occurrence, ROUND_MS, WHOLE_EVERY_MS } from './compare.ts';
import type { ConnectionTurn, DeviceHistory } from './history.ts';
import { type ReplayedServer, replayedServer } from './replayed-server.ts';

export interface ReplayedDevice extends EnrolledDevice {
  history: DeviceHistory;
  /** The server that holds its connection. */
  node: number;
}

type Action = () => Promise<void>;

/** After a device has turned: it counts as back, and each rule about absences has its time (in minutes). */
const DUE_AFTER_TURN = [2, 5, 10, 12, 30];
/** After the end of a maintenance window. */
const RETURN_MS = 10 * MINUTE_MS;

/**
 * Lives through the history of devices, second by second where something happens. Rounds are each half minute; of those
 * in which nothing can be due, a whole one each ten minutes is had and the others only leave their mark.
 */
export class Replay {
  readonly #app: TestApp;
  readonly #time: ReplayedTime;
  readonly #devices: readonly ReplayedDevice[];
  readonly #filters: WatchedFilters;
  readonly #maintenance: MaintenanceRounds;
  readonly #actions = new Map<number, Action[]>();
  readonly #alerts = new Map<string, { count: number; open: Occurrence[] }>();
  #servers: ReplayedServer[] = [];
  /** Messages of this moment, which a server takes together. */
  #reports: { device: ReplayedDevice; samples: DeviceHistory['messages'][number]['samples'] }[] = [];
  #epoch = 0;
  #wasDown = true;
  #connected = new Set<string>();
  /** What is switched on and has a network, whether a server is there or not. */
  readonly #reachable = new Set<string>();
  readonly #outOfService = new Set<string>();
  readonly #turns = new Map<string, { at: number; state: ConnectionTurn['state'] }[]>();
  readonly #dueRounds = new Set<number>();
  #maintenanceDueAt = 0;
  readonly occurrences: Occurrence[] = [];
  /** The rounds that a server had, by time. */
  readonly rounds: number[] = [];
  readonly done = { messages: 0, samples: 0, turns: 0, events: 0, heartbeats: 0 };

  private constructor(app: TestApp, time: ReplayedTime, devices: readonly ReplayedDevice[]) {
    this.#app = app;
    this.#time = time;
    this.#devices = devices;
    const backgroundDb = app.server.database.hubPool;
    this.#filters = new WatchedFilters({ backgroundDb, log: quietLog });
    this.#maintenance = new MaintenanceRounds({
      backgroundDb,
      log: quietLog,
      hub: { devicesChanged() {} },
    });
  }

  static async begin(app: TestApp, time: ReplayedTime, devices: readonly ReplayedDevice[]): Promise<Replay> {
    const replay = new Replay(app, time, devices);
    for (const device of devices) replay.#plan(device);
    await replay.#time.sql(
      'update alert_rounds set through = now(), whole_at = now(), watched_since = now()',
    );
    await replay.startServers();
    return replay;
  }

  #plan(device: ReplayedDevice): void {
    const { history } = device;
    for (const { at, samples } of history.messages) {
      this.#at(at, async () => {
        if (this.#outOfService.has(device.deviceId)) return;
        this.done.messages += 1;
        this.done.samples += samples.length;
        this.#reports.push({ device, samples });
      });
    }
    for (const { at, state } of history.turns) {
      this.#at(at, async () => {
        if (state === 'connected') this.#reachable.add(device.deviceId);
        else this.#reachable.delete(device.deviceId);
        await this.#turn(device, state);
      });
    }
    for (const { at, happenedAt } of history.events) this.#at(at, () => this.#event(device, happenedAt));
  }

  #at(at: number, action: Action): void {
    const known = this.#actions.get(at);
    if (known === undefined) this.#actions.set(at, [action]);
    else known.push(action);
  }

  get isDown(): boolean {
    return this.#servers.length === 0;
  }

  /** Servers start that remember nothing. What the former ones held is lost. */
  async startServers(): Promise<void> {
    await this.stopServers();
    this.#servers = await Promise.all(['first', 'second'].map((node) => replayedServer(this.#app, node)));
    await this.#servers[0]?.devices.markLost({ allBut: [] });
    await this.#settle();
    this.#connected.clear();
  }

  /** All servers end as by `kill -9`. */
  async stopServers(): Promise<void> {
    this.#wasDown = true;
    const ending = this.#servers;
    this.#servers = [];
    for (const server of ending) await server.close();
  }

  /** The devices keep their connections but for a moment, and find themselves on the other server. */
  async swapServers(): Promise<void> {
    for (const device of this.#devices) {
      device.node = 1 - device.node;
      await this.reconnect(device);
    }
  }

  /** Its connection ends, and it connects at once. */
  async reconnect(device: ReplayedDevice): Promise<void> {
    if (this.#connected.has(device.deviceId)) await this.#turn(device, 'connected');
  }

  /** Its credentials end, and its connection with them. It comes back with what it was. */
  async takeOutOfService(device: ReplayedDevice): Promise<void> {
    await this.#turn(device, 'disconnected');
    this.#outOfService.add(device.deviceId);
  }

  async putBackInService(device: ReplayedDevice): Promise<void> {
    this.#outOfService.delete(device.deviceId);
    if (this.#reachable.has(device.deviceId)) await this.#turn(device, 'connected');
  }

  /** When servers noted that a device connected or disconnected, in order. */
  turnsOf({ deviceId }: ReplayedDevice): readonly { at: number; state: ConnectionTurn['state'] }[] {
    return this.#turns.get(deviceId) ?? [];
  }

  /** Rules, devices, groups or filters have changed. Servers take notice within minutes; here they do at once. */
  async settleChanges(): Promise<void> {
    await this.#app.settle();
    for (const { book } of this.#servers) await book.settle();
    await this.#time.sql(`update watched_filters set evaluated_at = '-infinity'`);
    await this.#filters.settle();
    this.#maintenanceDueAt = 0;
  }

  /** @param until  a full half minute */
  async liveUntil(until: number): Promise<void> {
    const from = this.#time.now();
    const due = [...this.#actions.keys()].filter((at) => at > from && at <= until).sort((a, b) => a - b);
    let place = 0;
    for (let round = from + ROUND_MS; round <= until; round += ROUND_MS) {
      for (; place < due.length && (due[place] ?? 0) <= round; place += 1) {
        const at = due[place] ?? 0;
        if (await this.#live(at)) this.#isRoundDueAt(at);
      }
      if (this.isDown) continue;
      if (round % MINUTE_MS === 0) await this.#minute(round);
      if (this.#dueRounds.delete(round) || round % WHOLE_EVERY_MS === 0) {
        await this.#time.moveTo(round);
        await this.#round(round);
      }
    }
    await this.#time.moveTo(until);
  }

  /** @param at  the first round then sees it */
  #isRoundDueAt(at: number): void {
    this.#dueRounds.add(Math.ceil(at / ROUND_MS) * ROUND_MS);
  }

  /** @returns whether a round has something to do */
  async #live(at: number): Promise<boolean> {
    const actions = this.#actions.get(at) ?? [];
    this.#actions.delete(at);
    await this.#time.moveTo(at);
    for (const action of actions) await action();
    const reports = this.#reports;
    if (reports.length === 0) return true;
    this.#reports = [];
    for (const [node, server] of this.#servers.entries()) {
      const own = reports.filter(({ device }) => device.node === node);
      if (own.length > 0) {
        await server.metrics.record(own.map(({ device: { deviceId }, samples }) => ({ deviceId, samples })));
      }
    }
    const isPending = await this.#planEnds();
    return isPending || actions.length > reports.length;
  }

  /** Rounds have to see when matches end by themselves. @returns whether one has something to do now */
  async #planEnds(): Promise<boolean> {
    const [found] = await this.#time.sql<{ isPending: boolean; ends: Date[] }>(
      `select exists (select from alert_rule_matches
          where ends_at <= now() or met_at > (select through from alert_rounds)) as "isPending",
        array(select distinct ends_at from alert_rule_matches where ends_at > now()) as ends`,
    );
    for (const end of found?.ends ?? []) this.#isRoundDueAt(end.getTime());
    return found?.isPending === true;
  }

  async #minute(now: number): Promise<void> {
    await this.#time.moveTo(now);
    for (const [node, server] of this.#servers.entries()) {
      const heard = this.#devices.filter((one) => one.node === node && this.#connected.has(one.deviceId));
      this.done.heartbeats += heard.length;
      server.watch.heard(
        heard.map(({ deviceId, history }) => ({ deviceId, metrics: history.heartbeatAt(now) })),
      );
      await server.watch.settle();
    }
    if (now % HOUR_MS === 6 * MINUTE_MS) {
      await packSamples(this.#app.server.database.hubPool, new Date(now - 6 * MINUTE_MS));
      for (const { book } of this.#servers) await book.settle();
    }
    if (now >= this.#maintenanceDueAt) await this.#maintain(now);
  }

  /** While a window is near, this comes each minute; rounds have to see only when it ends. */
  async #maintain(now: number): Promise<void> {
    await this.#maintenance.settle();
    const [next] = await this.#time.sql<{ at: Date | null; ends: Date[] }>(
      `select (select min(due_at) from maintenance_windows) as at,
        array(select distinct ends_at from maintenance_members order by 1) as ends`,
    );
    this.#maintenanceDueAt = next?.at?.getTime() ?? Number.POSITIVE_INFINITY;
    for (const end of next?.ends ?? []) {
      for (const ms of [0, RETURN_MS]) if (end.getTime() + ms > now) this.#isRoundDueAt(end.getTime() + ms);
    }
  }

  async #round(now: number): Promise<void> {
    // Servers take turns.
    const server = this.#servers[this.rounds.length % this.#servers.length];
    if (this.rounds.at(-1) !== undefined && !this.#wasDown) {
      await this.#time.sql(`update alert_rounds set through = now() - interval '30 seconds'`);
    }
    this.#wasDown = false;
    const done = await server?.rounds.round();
    if (done === undefined) throw new Error('There was no round.');
    this.rounds.push(now);
    if (done.raised + done.resolved === 0) return;
    await this.#observe();
    if (await this.#planEnds()) this.#isRoundDueAt(now + ROUND_MS);
  }

  async #observe(): Promise<void> {
    const changed = await this.#time.sql<{
      id: string;
      deviceId: string;
      ruleId: string;
      count: number;
      status: string;
      lastAt: Date;
      resolvedAt: Date | null;
    }>(
      `select id, device_id as "deviceId", rule_id as "ruleId", count, status, last_at as "lastAt",
        resolved_at as "resolvedAt" from alerts where updated_at = now()`,
    );
    for (const { id, deviceId, ruleId, count, lastAt, resolvedAt } of changed) {
      const known = this.#alerts.get(id) ?? { count: 0, open: [] };
      this.#alerts.set(id, known);
      for (; known.count < count; known.count += 1) {
        const occurrence = { deviceId, ruleId, raisedAt: lastAt.getTime(), resolvedAt: null };
        known.open.push(occurrence);
        this.occurrences.push(occurrence);
      }
      if (resolvedAt === null) continue;
      for (const occurrence of known.open) occurrence.resolvedAt = resolvedAt.getTime();
      known.open = [];
    }
  }

  async #turn(device: ReplayedDevice, state: 'connected' | 'disconnected'): Promise<void> {
    const server = this.#servers[device.node];
    if (server === undefined || this.#outOfService.has(device.deviceId)) return;
    const isKnown = this.#connected.has(device.deviceId);
    if (state === 'disconnected' && !isKnown) return;
    if (state === 'connected') this.#connected.add(device.deviceId);
    else this.#connected.delete(device.deviceId);
    this.done.turns += 1;
    const turns = this.#turns.get(device.deviceId) ?? [];
    this.#turns.set(device.deviceId, turns);
    turns.push({ at: this.#time.now(), state });
    this.#epoch += 1;
    const now = new Date(this.#time.now()).toISOString();
    for (const minutes of DUE_AFTER_TURN) this.#isRoundDueAt(this.#time.now() + minutes * MINUTE_MS);
    await server.devices.recordPresence(
      [
        {
          deviceId: device.deviceId,
          epoch: this.#epoch,
          presence: { state, since: now, reason: state === 'connected' ? 'connected' : 'heartbeat_missed' },
          lastSeenAt: now,
          lastIp: null,
          metrics: device.history.heartbeatAt(this.#time.now()),
          uptimeSeconds: null,
        },
      ],
      new Map(),
    );
    await this.#settle();
  }

  async #event({ deviceId }: ReplayedDevice, happenedAt: number): Promise<void> {
    if (this.isDown || this.#outOfService.has(deviceId)) return;
    this.done.events += 1;
    for (const minutes of [0, 10, 15]) this.#isRoundDueAt(this.#time.now() + minutes * MINUTE_MS + ROUND_MS);
    await this.#time.sql(
      `insert into event_logs (id, device_id, org_id, "timestamp", level, category, source, message)
      select new_row_id(), id, org_id, to_timestamp($2::float8 / 1000), 'error', 'hardware', 'Disk', 'A block cannot be read.'
      from devices where id = $1`,
      [deviceId, happenedAt],
    );
  }

  async #settle(): Promise<void> {
    for (const { metrics, watch } of this.#servers) {
      await metrics.settle();
      await watch.settle();
    }
  }
}
