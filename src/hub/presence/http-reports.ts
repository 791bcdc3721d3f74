import { clock } from '../../clock.ts';
import type { Heartbeat, HeartbeatAck, DeviceSummary } from '../../protocol/index.ts';
import type { Logger } from '../../platform/logger.ts';
import {
  factsOf,
  hasSameFacts,
  heartbeatAck,
  instant,
  machineFacts,
  pendingAck,
  CachedOffer,
  type MachineFacts,
} from '../device/heartbeat.ts';
import type { ClusterFeed } from '../feed/cluster-feed.ts';
import type { AgentIdentity, UpgradeOffers, DeviceStore } from '../ports.ts';
import type { PresenceWriter } from './presence-writer.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { statusAfter } from '../subscriptions/device-change.ts';

interface Parts {
  devices: ReportingDevices;
  store: DeviceStore;
  writer: PresenceWriter;
  offers: UpgradeOffers;
  feed: Pick<ClusterFeed, 'changed'>;
  log: Logger;
}

/**
 * Heartbeats over plain HTTP, from devices whose network blocks the socket. Each heartbeat makes the device count as
 * online until a deadline. The device cannot be queried meanwhile, so its presence stays disconnected.
 */
export class HttpReports {
  readonly #parts: Parts;
  readonly #timing: { heartbeatMs: number; countsForMs: number };
  #checking: Promise<void> | undefined;

  constructor(parts: Parts, timing: { heartbeatMs: number; countsForMs: number }) {
    this.#parts = parts;
    this.#timing = timing;
  }

  /** Loads the deadlines of an earlier run, so that their end is shown when it comes. */
  async start(): Promise<void> {
    const { store, devices } = this.#parts;
    for (const { deviceId, until } of await store.reporting()) {
      if (until === null) continue;
      devices.set(deviceId, { until: monotonic(until), lastSeenAt: 0, known: undefined });
    }
  }

  heartbeat(identity: AgentIdentity, heartbeat: Heartbeat, ip: string): HeartbeatAck {
    const at = clock.now();
    const { deviceId } = identity;
    const { devices, writer, feed, offers } = this.#parts;
    const { countsForMs, heartbeatMs } = this.#timing;
    let known = devices.get(deviceId)?.known;
    if (known === undefined || !hasSameFacts(known.facts, heartbeat)) {
      known = { facts: machineFacts(heartbeat), offer: new CachedOffer(offers) };
      writer.facts(factsOf({ deviceId, capabilities: undefined }, known.facts));
    }
    devices.set(deviceId, { until: clock.monotonic() + countsForMs, lastSeenAt: at, known });
    const { metrics } = heartbeat;
    const lastSeenAt = instant(at);
    writer.report({
      deviceId,
      until: new Date(at + countsForMs).toISOString(),
      lastSeenAt,
      lastIp: ip,
      metrics: metrics ?? null,
      uptimeSeconds: heartbeat.uptimeSeconds ?? null,
    });
    feed.changed(
      deviceId,
      {
        isReporting: true,
        lastSeenAt,
        ...(metrics === undefined ? {} : { metrics }),
      },
      { tenant: identity },
    );
    if (identity.isPending === true) return pendingAck(at, heartbeatMs);
    return heartbeatAck(
      at,
      heartbeatMs,
      known.offer.current({ identity, capabilities: undefined }, known.facts, at),
    );
  }

  /** The device has connected, or was decommissioned. */
  end(deviceId: string): void {
    this.#parts.devices.delete(deviceId);
  }

  sweep(now = clock.monotonic()): void {
    if (this.#checking !== undefined) return;
    const expired = this.#parts.devices.expired(now);
    if (expired.length === 0) return;
    this.#checking = this.#expire(expired)
      // The devices stay shown as online until the next sweep, which tries again.
      .catch((error: unknown) => this.#parts.log.warn({ err: error }, 'hub.reports_not_read'))
      .finally(() => {
        this.#checking = undefined;
      });
  }

  /** Resolves when the deadlines that have passed are checked. */
  async settle(): Promise<void> {
    await this.#checking;
  }

  async close(): Promise<void> {
    await this.#checking;
  }

  /** Reads the deadlines first, because another node may have received a heartbeat since. */
  async #expire(expired: readonly string[]): Promise<void> {
    const { devices, store, feed } = this.#parts;
    const stored = new Map((await store.reporting(expired)).map(({ deviceId, until }) => [deviceId, until]));
    const now = clock.monotonic();
    for (const deviceId of expired) {
      const device = devices.get(deviceId);
      // It has reported again while the database was read.
      if (device === undefined || device.until > now) continue;
      const until = monotonic(stored.get(deviceId) ?? 0);
      if (until > now) device.until = until;
      else {
        devices.delete(deviceId);
        const isConnected = stored.get(deviceId) === null;
        if (!isConnected) feed.changed(deviceId, { isReporting: false });
      }
    }
  }
}

/** Converts a clock time to the scale of `clock.monotonic()`. */
const monotonic = (instantMs: number) => clock.monotonic() + (instantMs - clock.now());

interface Reporting {
  /** By `clock.monotonic()`, because the clock of the machine may be set. */
  until: number;
  lastSeenAt: number;
  /** The facts that were written last, and what the device was offered under them. Unknown for devices of an earlier run. */
  known: { facts: MachineFacts; offer: CachedOffer } | undefined;
}

/** The devices that currently report over HTTP instead of a connection. */
export class ReportingDevices {
  readonly #devices = new Map<string, Reporting>();

  get size(): number {
    return this.#devices.size;
  }

  get(deviceId: string): Reporting | undefined {
    return this.#devices.get(deviceId);
  }

  set(deviceId: string, reporting: Reporting): void {
    this.#devices.set(deviceId, reporting);
  }

  delete(deviceId: string): void {
    this.#devices.delete(deviceId);
  }

  /** When the device last reported, or `undefined` when it does not report over HTTP. */
  lastSeenAt(deviceId: string): number | undefined {
    return this.#devices.get(deviceId)?.lastSeenAt;
  }

  expired(now: number): string[] {
    return [...this.#devices].filter(([, { until }]) => until <= now).map(([deviceId]) => deviceId);
  }
}

/** The device with the presence that this process knows, which is newer than the database: presence is written later. */
export function withLivePresence(
  device: DeviceSummary,
  registry: ActorRegistry,
  reporting: ReportingDevices,
): DeviceSummary {
  const actor = registry.get(device.id);
  if (actor?.countsAsConnected === true) {
    const presence = {
      state: 'connected',
      since: new Date(actor.connectedSince).toISOString(),
      reason: 'connected',
    } as const;
    return {
      ...device,
      presence,
      status: statusAfter(device.status, { presence }),
      lastSeenAt: new Date(actor.lastHeardAt).toISOString(),
    };
  }
  const reportedAt = reporting.lastSeenAt(device.id);
  if (reportedAt === undefined) return device;
  const lastSeenAt = Math.max(reportedAt, device.lastSeenAt === null ? 0 : Date.parse(device.lastSeenAt));
  return {
    ...device,
    status: statusAfter(device.status, { isReporting: true }),
    lastSeenAt: new Date(lastSeenAt).toISOString(),
  };
}
