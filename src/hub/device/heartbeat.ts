import type { Heartbeat, HeartbeatAck, Metrics, UpdatePhase } from '../../protocol/index.ts';
import type { DeviceFacts, PresenceRecord, Offer, OfferQuestion, UpgradeOffers } from '../ports.ts';

/** How a heartbeat is processed, whether it came over the socket or over HTTP. */

/** The fields of a heartbeat that describe the machine. They change rarely and are written only when they do. */
const FACTS = [
  'agentVersion',
  'osVersion',
  'osBuild',
  'watchdogVersion',
  'lastUser',
  'pendingReboot',
  'autoUpdate',
  'hostname',
] as const;
export type MachineFacts = Pick<Heartbeat, (typeof FACTS)[number]>;

let lastAck: Readonly<HeartbeatAck> | undefined;

/** All heartbeats within one millisecond that are offered the same share one object as their answer. */
export function heartbeatAck(
  at: number,
  heartbeatMs: number,
  upgrade: HeartbeatAck['upgrade'],
): Readonly<HeartbeatAck> {
  const now = instant(at);
  if (lastAck?.at !== now || lastAck.nextInMs !== heartbeatMs || lastAck.upgrade !== upgrade) {
    lastAck = { ok: true, at: now, nextInMs: heartbeatMs, upgrade };
  }
  return lastAck;
}

/** The answer to a device that waits for approval. */
export const pendingAck = (at: number, heartbeatMs: number): HeartbeatAck => ({
  ok: true,
  at: instant(at),
  nextInMs: heartbeatMs,
  upgrade: [],
  isPending: true,
});

let formattedAt = Number.NaN;
let formatted = '';

/** ISO 8601. Many heartbeats arrive within one millisecond, so the last result is kept. */
export function instant(at: number): string {
  if (at !== formattedAt) {
    formatted = new Date(at).toISOString();
    formattedAt = at;
  }
  return formatted;
}

/** Copies only the facts, so that the rest of the heartbeat can be collected. */
export function machineFacts(heartbeat: MachineFacts): MachineFacts {
  const { agentVersion, osVersion, osBuild, watchdogVersion, lastUser, pendingReboot, autoUpdate, hostname } =
    heartbeat;
  return { agentVersion, osVersion, osBuild, watchdogVersion, lastUser, pendingReboot, autoUpdate, hostname };
}

export function hasSameFacts(before: MachineFacts, heartbeat: MachineFacts): boolean {
  return FACTS.every((fact) => before[fact] === heartbeat[fact]);
}

/** @param known  what a heartbeat does not contain: only a handshake has the capabilities and the ids of the machine */
export function factsOf(
  known: Pick<DeviceFacts, 'deviceId' | 'capabilities' | 'serialNumber' | 'macAddresses'>,
  reported: MachineFacts,
): DeviceFacts {
  return { ...known, ...reported };
}

/**
 * Writes into the existing numbers if there are some. They are named one by one at first too: a copy of the parsed
 * object would keep each later number as an object of its own (docs/decisions/agent-wire.md).
 */
export function setMetrics(record: PresenceRecord, reported: Metrics | undefined): void {
  if (reported === undefined) {
    record.metrics = null;
    return;
  }
  const { cpuPercent, ramPercent, diskPercent } = reported;
  if (record.metrics === null) record.metrics = { cpuPercent, ramPercent, diskPercent };
  else {
    record.metrics.cpuPercent = cpuPercent;
    record.metrics.ramPercent = ramPercent;
    record.metrics.diskPercent = diskPercent;
  }
}

const ENDED: readonly UpdatePhase[] = ['completed', 'failed', 'rolled_back'];
/** A device that has disconnected for longer is not updating any more (SPEC 3). */
const UPDATING_MS = 5 * 60_000;
/** A report of a device takes a moment until offers are made by it. */
const SETTLING_MS = 5000;
const NOTHING: HeartbeatAck['upgrade'] = [];

/** The fields of a heartbeat that decide about upgrades. */
type ReportedFacts = Partial<Pick<OfferQuestion, 'watchdogVersion' | 'autoUpdate'>> &
  Pick<OfferQuestion, 'agentVersion'>;

/** The offer for one device, kept from heartbeat to heartbeat, so that most of them cost a comparison. */
export class CachedOffer {
  readonly #offers: UpgradeOffers;
  #offer: Offer | undefined;
  /** When the device reported a phase of an upgrade that has not ended. */
  #updatingSince: number | undefined;

  constructor(offers: UpgradeOffers) {
    this.#offers = offers;
  }

  current(
    device: Pick<OfferQuestion, 'identity' | 'capabilities'>,
    facts: ReportedFacts,
    at: number,
  ): HeartbeatAck['upgrade'] {
    // Whatever else has changed meanwhile, the offers may not know of this upgrade yet.
    if (this.#updatingSince !== undefined && at - this.#updatingSince < SETTLING_MS) return NOTHING;
    let offer = this.#offer;
    if (offer === undefined || at >= offer.until || offer.revision !== this.#offers.revision) {
      const { identity, capabilities } = device;
      const { agentVersion, watchdogVersion, autoUpdate } = facts;
      offer = this.#offers.offer({ identity, capabilities, agentVersion, watchdogVersion, autoUpdate }, at);
      this.#offer = offer;
    }
    return offer.upgrade;
  }

  forget(): void {
    this.#offer = undefined;
  }

  reported(phase: UpdatePhase, at: number): void {
    this.#updatingSince = ENDED.includes(phase) ? undefined : at;
    this.#offer = { upgrade: NOTHING, revision: this.#offers.revision, until: at + SETTLING_MS };
  }

  isUpdating(now: number): boolean {
    return this.#updatingSince !== undefined && now - this.#updatingSince < UPDATING_MS;
  }
}
