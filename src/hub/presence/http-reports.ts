import type { Heartbeat, HeartbeatAck } from '../../protocol/index.ts';
import type { Logger } from '../../platform/logger.ts';
import type { DashboardFeed } from '../feed/dashboard-feed.ts';
import {
  factsOf,
  heartbeatAnswer,
  instant,
  tellsNothingNew,
  toldFacts,
  type ToldFacts,
} from '../device/heartbeat.ts';
import type { AgentIdentity, DeviceStore } from '../ports.ts';
import type { PresenceWriter } from './presence-writer.ts';

interface Reporting {
  /** By `performance.now()`: the clock of this machine may be set meanwhile. */
  until: number;
  lastSeenAt: number;
  /** What was last written of the machine; of what the last run has left, that is not known. */
  facts: ToldFacts | undefined;
}

/**
 * Devices whose socket is blocked and that send their heartbeats over plain HTTP. Each counts as online until its
 * deadline, which the next heartbeat moves; nobody can ask it anything meanwhile, so its presence stays disconnected.
 */
export class HttpReports {
  readonly #parts: {
    store: DeviceStore;
    writer: PresenceWriter;
    feed: Pick<DashboardFeed, 'changed'>;
    log: Logger;
  };
  readonly #timing: { heartbeatMs: number; countsForMs: number };
  readonly #devices = new Map<string, Reporting>();
  #checking: Promise<void> | undefined;

  constructor(
    parts: { store: DeviceStore; writer: PresenceWriter; feed: Pick<DashboardFeed, 'changed'>; log: Logger },
    timing: { heartbeatMs: number; countsForMs: number },
  ) {
    this.#parts = parts;
    this.#timing = timing;
  }

  get size(): number {
    return this.#devices.size;
  }

  /** When the device was heard of last; `undefined` where it does not report this way. */
  lastSeenAt(deviceId: string): number | undefined {
    return this.#devices.get(deviceId)?.lastSeenAt;
  }

  /** Knows the deadlines that the last run has left, so that someone is told when they pass. */
  async start(): Promise<void> {
    for (const { deviceId, until } of await this.#parts.store.reporting()) {
      if (until === null) continue;
      this.#devices.set(deviceId, { until: monotonic(until), lastSeenAt: 0, facts: undefined });
    }
  }

  heartbeat({ deviceId }: AgentIdentity, heartbeat: Heartbeat, ip: string): HeartbeatAck {
    const at = Date.now();
    const { countsForMs } = this.#timing;
    let facts = this.#devices.get(deviceId)?.facts;
    if (facts === undefined || !tellsNothingNew(facts, heartbeat)) {
      facts = toldFacts(heartbeat);
      this.#parts.writer.facts(factsOf({ deviceId, capabilities: undefined }, facts));
    }
    this.#devices.set(deviceId, { until: performance.now() + countsForMs, lastSeenAt: at, facts });
    const { metrics } = heartbeat;
    const lastSeenAt = instant(at);
    this.#parts.writer.report({
      deviceId,
      until: new Date(at + countsForMs).toISOString(),
      lastSeenAt,
      lastIp: ip,
      metrics: metrics ?? null,
      uptimeSeconds: heartbeat.uptimeSeconds ?? null,
    });
    this.#parts.feed.changed(deviceId, {
      isReporting: true,
      lastSeenAt,
      ...(metrics === undefined ? {} : { metrics }),
    });
    return heartbeatAnswer(at, this.#timing.heartbeatMs);
  }

  /** The device has a connection, or is gone for good. */
  end(deviceId: string): void {
    this.#devices.delete(deviceId);
  }

  sweep(now = performance.now()): void {
    if (this.#checking !== undefined) return;
    const over = [...this.#devices].filter(([, { until }]) => until <= now).map(([deviceId]) => deviceId);
    if (over.length === 0) return;
    this.#checking = this.#tellOf(over)
      // Nobody is told wrong things meanwhile; the next sweep asks again.
      .catch((error: unknown) => this.#parts.log.warn({ err: error }, 'hub.reports_not_read'))
      .finally(() => {
        this.#checking = undefined;
      });
  }

  async close(): Promise<void> {
    await this.#checking;
  }

  /** The database is asked first: the device may have been heard of by another node. */
  async #tellOf(over: readonly string[]): Promise<void> {
    const online = new Map(
      (await this.#parts.store.reporting(over)).map(({ deviceId, until }) => [deviceId, until]),
    );
    const now = performance.now();
    for (const deviceId of over) {
      const device = this.#devices.get(deviceId);
      // It came back while the database was asked.
      if (device === undefined || device.until > now) continue;
      const until = monotonic(online.get(deviceId) ?? 0);
      if (until > now) device.until = until;
      else {
        this.#devices.delete(deviceId);
        const isConnected = online.get(deviceId) === null;
        if (!isConnected) this.#parts.feed.changed(deviceId, { isReporting: false });
      }
    }
  }
}

/** An instant of the clock, as `performance.now()` will have it. */
const monotonic = (instantMs: number) => performance.now() + (instantMs - Date.now());
