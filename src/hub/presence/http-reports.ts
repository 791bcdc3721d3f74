import { clock } from '../../clock.ts';
import type { Heartbeat, HeartbeatAck } from '../../protocol/index.ts';
import type { Logger } from '../../platform/logger.ts';
import {
  factsOf,
  hasSameFacts,
  heartbeatAck,
  instant,
  machineFacts,
  pendingAck,
} from '../device/heartbeat.ts';
import type { DashboardFeed } from '../feed/dashboard-feed.ts';
import type { AgentIdentity } from '../ports/agent-credentials.ts';
import type { DeviceStore } from '../ports/device-store.ts';
import type { PresenceWriter } from './presence-writer.ts';
import type { UpgradeOffers } from '../ports/upgrades.ts';
import { HeldOffer } from '../upgrades/held-offer.ts';
import type { ReportingDevices } from './reporting-devices.ts';

interface Parts {
  devices: ReportingDevices;
  store: DeviceStore;
  writer: PresenceWriter;
  offers: UpgradeOffers;
  feed: Pick<DashboardFeed, 'changed'>;
  log: Logger;
}

/**
 * Heartbeats over plain HTTP, from devices whose network blocks the socket. Each heartbeat makes the device count as
 * online until a deadline. Nobody can query the device meanwhile, so its presence stays disconnected.
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
      known = { facts: machineFacts(heartbeat), offer: new HeldOffer(offers) };
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
    feed.changed(deviceId, {
      isReporting: true,
      lastSeenAt,
      ...(metrics === undefined ? {} : { metrics }),
    });
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
