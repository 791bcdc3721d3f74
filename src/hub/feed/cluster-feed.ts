import { z } from 'zod';
import { type Recipients, topic } from '../../platform/cluster/cluster-events.ts';
import { DeviceStatus, DeviceSummary, Metrics, Presence } from '../../protocol/index.ts';
import { clock, type Timer } from '../../clock.ts';
import { byRecipients, type ClusterInterest, type Tenant } from '../cluster/interest.ts';
import { MISSED_MS, RecentEntries } from '../cluster/recent-entries.ts';
import type { PresenceRecord, StoredDevice } from '../ports.ts';
import { type DevicePatch, patchAfter } from '../subscriptions/device-change.ts';
import type { DashboardFeed } from './dashboard-feed.ts';

const WirePatch = z
  .object({
    presence: Presence,
    lastSeenAt: z.string().nullable(),
    metrics: Metrics.nullable(),
    status: DeviceStatus,
    agentVersion: z.string(),
    isReporting: z.boolean(),
  })
  .partial();

/** A change of a device as nodes send it to each other for their dashboards. */
export const FeedEvent = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('changed'),
    deviceId: z.string(),
    /** The epoch of the claim under which the presence in the patch was reported. */
    epoch: z.number().optional(),
    patch: WirePatch,
  }),
  z.object({
    type: z.literal('entered'),
    // Servers of the former release send no maintenance.
    device: DeviceSummary.extend({ maintenance: DeviceSummary.shape.maintenance.default(null) }),
    partnerId: z.string(),
  }),
  z.object({ type: z.literal('left'), deviceId: z.string() }),
]);
export type FeedEvent = z.infer<typeof FeedEvent>;

/** Live changes of devices, for the nodes that show devices of these tenants. */
export const FEED = topic('feed', z.object({ events: z.array(FeedEvent) }));

const DeviceIds = z.object({ deviceIds: z.array(z.string()) });

/** Stored records of devices have changed, or the devices are back in service. For the nodes that show any devices. */
export const RECORDS_CHANGED = topic('records_changed', DeviceIds);

/** Devices have moved to another organization or site, so their agents must reconnect under the new identity. */
export const DEVICES_MOVED = topic('moved', DeviceIds);

/** Nodes may have missed changes and must read again what they show. */
export const CHANGES_MISSED = topic('missed', z.object({}));

const BATCH_MS = 50;
/** The most devices whose latest epoch is remembered. Changes of other devices are accepted without a check. */
const EPOCHS_MAX = 200_000;
const EVENTS_PER_MESSAGE = 1000;

/** The reach of a change. */
interface Concerning {
  /** The epoch of the claim under which presence was reported. A change with an older one than is known is ignored. */
  epoch?: number | undefined;
  /** The tenants of the device, if they are known. */
  tenant?: Tenant | undefined;
  /** Whether even nodes without dashboards must learn of the change. */
  isForAll?: boolean;
}

interface Change extends Concerning {
  patch: DevicePatch;
}

interface Outgoing extends Pick<Concerning, 'tenant' | 'isForAll'> {
  event: FeedEvent;
}

interface Reported {
  tenant: Tenant;
  /** Whether the device reports over HTTP. */
  isReporting: boolean;
  /** Whether only what is known was repeated; otherwise a connection has begun or ended. */
  isHeartbeat: boolean;
}

/** The other nodes. */
interface Others {
  interest: Pick<ClusterInterest, 'isNeeded' | 'recipients' | 'onWidened'>;
  send(recipients: Recipients, events: FeedEvent[]): void;
}

/** Applies changes to the dashboards of this node, and sends those of this node in batches to the nodes that need them. */
export class ClusterFeed {
  readonly #feed: DashboardFeed;
  readonly #others: Others | undefined;
  /** The latest state of each device that only changed. Other events keep their order. */
  #changed = new Map<string, Change>();
  /** By device, the epoch of the newest claim from which presence was received. */
  readonly #epochs = new Map<string, number>();
  /**
   * What a node has missed that has just begun to show devices. Heartbeats are left out, because another one follows, and
   * devices that entered or left, because the node reads their records again (`DeviceAnnouncements`).
   */
  readonly #recent = new RecentEntries<Change>(MISSED_MS);
  #events: Outgoing[] = [];
  #timer: Timer | undefined;

  /** @param others  left out when there are no other nodes */
  constructor(feed: DashboardFeed, others?: Others) {
    this.#feed = feed;
    this.#others = others;
    others?.interest.onWidened('devices', (nodeId, isNew) => this.#sendMissed(nodeId, isNew));
  }

  /**
   * Shows presence that an actor has reported. Nothing is put together for a heartbeat of a device that no node shows.
   * @param record  the actor's own record, which it goes on changing
   */
  reported(record: PresenceRecord, { tenant, isReporting, isHeartbeat }: Reported): void {
    const { deviceId, epoch, presence, lastSeenAt, metrics } = record;
    const isShown = this.#feed.interest.covers(tenant);
    const isNeeded = this.#others?.interest.isNeeded('devices', tenant) === true;
    if (isHeartbeat && !isShown && !isNeeded) return this.#feed.noteUnwatched(deviceId, record);
    if (this.#isOutdated(deviceId, epoch)) return;
    const patch = {
      presence,
      isReporting,
      lastSeenAt,
      ...(metrics === null ? {} : { metrics: { ...metrics } }),
    };
    if (isShown) this.#feed.changed(deviceId, patch);
    else this.#feed.noteUnwatched(deviceId, record);
    if (this.#others === undefined) return;
    const change = { patch, epoch, tenant };
    if (!isHeartbeat) this.#noteRecent(deviceId, change);
    if (isNeeded) this.#send(deviceId, change);
  }

  changed(deviceId: string, patch: DevicePatch, concerning: Concerning = {}): void {
    if (this.#isOutdated(deviceId, concerning.epoch)) return;
    this.#feed.changed(deviceId, patch);
    if (this.#others === undefined) return;
    const change = { ...concerning, patch };
    this.#noteRecent(deviceId, change);
    if (change.isForAll === true || this.#others.interest.isNeeded('devices', change.tenant)) {
      this.#send(deviceId, change);
    }
  }

  /**
   * A device was read from the database. Presence of an earlier claim does not count any more, be it shown already or on
   * its way here from another node.
   */
  stored({ device, epoch }: StoredDevice): void {
    const known = this.#epochs.get(device.id);
    if (this.#isOutdated(device.id, epoch) || known === undefined || known === epoch) return;
    const { presence, lastSeenAt, status } = device;
    this.#feed.changed(device.id, { presence, lastSeenAt, status });
  }

  entered(device: DeviceSummary, partnerId: string): void {
    this.#feed.entered(device, partnerId);
    this.#event({
      event: { type: 'entered', device, partnerId },
      tenant: { orgId: device.orgId, partnerId },
    });
  }

  left(deviceId: string): void {
    this.#feed.left(deviceId);
    this.#event({ event: { type: 'left', deviceId } });
  }

  /** Applies the changes of another node. */
  receive(events: readonly FeedEvent[]): void {
    for (const event of events) {
      if (event.type === 'entered') this.#feed.entered(event.device, event.partnerId);
      else if (event.type === 'left') this.#feed.left(event.deviceId);
      else if (!this.#isOutdated(event.deviceId, event.epoch)) {
        this.#feed.changed(event.deviceId, withoutUndefined(event.patch));
      }
    }
  }

  /** Sends now what waits for the next message. */
  settle(): void {
    clock.clear(this.#timer);
    this.#flush();
  }

  close(): void {
    clock.clear(this.#timer);
    this.#flush();
  }

  /** Messages about a device that changes nodes can arrive in any order. The epochs say which one is newer. */
  #isOutdated(deviceId: string, epoch: number | undefined): boolean {
    if (epoch === undefined || this.#others === undefined) return false;
    const known = this.#epochs.get(deviceId);
    if (known === epoch) return false;
    if (known !== undefined && known > epoch) return true;
    this.#epochs.set(deviceId, epoch);
    if (this.#epochs.size > EPOCHS_MAX) {
      const [oldest] = this.#epochs.keys();
      if (oldest !== undefined) this.#epochs.delete(oldest);
    }
    return false;
  }

  #noteRecent(deviceId: string, change: Change): void {
    this.#recent.note(deviceId, (earlier) => joined(earlier, change));
  }

  #send(deviceId: string, change: Change): void {
    this.#changed.set(deviceId, joined(this.#changed.get(deviceId), change));
    this.#schedule();
  }

  #event(outgoing: Outgoing): void {
    if (this.#others === undefined) return;
    this.#queueChanges();
    this.#events.push(outgoing);
    this.#schedule();
  }

  #queueChanges(): void {
    for (const [deviceId, change] of this.#changed) this.#events.push(outgoing(deviceId, change));
    this.#changed = new Map();
  }

  #schedule(): void {
    this.#timer ??= clock.setTimeout(() => this.#flush(), BATCH_MS);
  }

  #flush(): void {
    this.#timer = undefined;
    this.#queueChanges();
    const events = this.#events;
    this.#events = [];
    const interest = this.#others?.interest;
    if (interest === undefined) return;
    // Many events have few tenants.
    const known = new Map<string | undefined, Recipients>();
    const recipientsOf = ({ tenant, isForAll }: Outgoing): Recipients => {
      if (isForAll === true) return 'all';
      const recipients = known.get(tenant?.orgId) ?? interest.recipients('devices', tenant);
      known.set(tenant?.orgId, recipients);
      return recipients;
    };
    for (const { recipients, changes } of byRecipients(events, recipientsOf)) {
      this.#sendTo(recipients, changes);
    }
  }

  #sendMissed(nodeId: string, isNew: (tenant: Tenant | undefined) => boolean): void {
    const missed = [...this.#recent.entries()].filter(
      ([, { tenant }]) => tenant === undefined || isNew(tenant),
    );
    this.#sendTo(
      new Set([nodeId]),
      missed.map(([deviceId, change]) => outgoing(deviceId, change)),
    );
  }

  #sendTo(recipients: Recipients, outgoing: readonly Outgoing[]): void {
    for (let start = 0; start < outgoing.length; start += EVENTS_PER_MESSAGE) {
      const some = outgoing.slice(start, start + EVENTS_PER_MESSAGE);
      this.#others?.send(
        recipients,
        some.map(({ event }) => event),
      );
    }
  }
}

function joined(earlier: Change | undefined, later: Change): Change {
  if (earlier === undefined) return later;
  return {
    patch: patchAfter(earlier.patch, later.patch),
    epoch: later.epoch ?? earlier.epoch,
    tenant: later.tenant ?? earlier.tenant,
    isForAll: earlier.isForAll === true || later.isForAll === true,
  };
}

function outgoing(deviceId: string, { patch, epoch, tenant, isForAll }: Change): Outgoing {
  return {
    event: { type: 'changed', deviceId, patch, ...(epoch === undefined ? {} : { epoch }) },
    tenant,
    isForAll: isForAll === true,
  };
}

type Patch = Extract<FeedEvent, { type: 'changed' }>['patch'];

/** Fields that were left out must be missing: an undefined field would overwrite an earlier one. */
function withoutUndefined(patch: Patch): DevicePatch {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
}
