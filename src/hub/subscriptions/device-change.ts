import type {
  DevicesDelta,
  DeviceStatus,
  DeviceSummary,
  Metrics,
  Presence,
  DevicesSubscribe,
} from '../../protocol/index.ts';
import type { Caller } from '../../platform/context.ts';
import type { EventJson } from '../wire/flow-controlled-client.ts';

export interface DevicePatch {
  presence?: Presence;
  /** Whether the device sends heartbeats over HTTP. Decides about the status and is not shown itself. */
  isReporting?: boolean | undefined;
  lastSeenAt?: string | null;
  metrics?: Metrics | null;
  status?: DeviceStatus;
  agentVersion?: string;
}

/** A patch that may also contain fields of the stored record. */
interface ShownPatch
  extends DevicePatch,
    Partial<
      Pick<DeviceSummary, 'orgId' | 'siteId' | 'hostname' | 'displayName' | 'osType' | 'maintenance'>
    > {}

type Shown = DevicesDelta['changed'][number];

/**
 * A change of a device. All subscribers share one object, so that what they need of it, such as the entry in a frame, is
 * created once: most of them show the same.
 */
export class DeviceChange {
  readonly deviceId: string;
  readonly patch: ShownPatch;
  #shown: Shown | undefined;
  #shownWithStatus: Shown | undefined;
  #earlier: DeviceChange | undefined;
  #merged: DeviceChange | undefined;

  constructor(deviceId: string, patch: ShownPatch) {
    this.deviceId = deviceId;
    this.patch = patch;
  }

  /** Merges this change with an earlier one that was not shown yet. */
  after(earlier: DeviceChange): DeviceChange {
    if (this.#merged === undefined || this.#earlier !== earlier) {
      this.#earlier = earlier;
      this.#merged = new DeviceChange(this.deviceId, patchAfter(earlier.patch, this.patch));
    }
    return this.#merged;
  }

  statusAfter(before: DeviceStatus): DeviceStatus {
    return statusAfter(before, this.patch, this.patch.status);
  }

  /** The device after this change. */
  over(device: DeviceSummary): DeviceSummary {
    const { status: _status, isReporting: _isReporting, ...patch } = this.patch;
    return { ...device, ...patch, status: this.statusAfter(device.status) };
  }

  /** The entry in a frame. @param status  given when the change also changed it */
  shown(status: DeviceStatus | undefined): Shown {
    if (status === undefined) return (this.#shown ??= this.#entry());
    if (this.#shownWithStatus?.status !== status) this.#shownWithStatus = { ...this.#entry(), status };
    return this.#shownWithStatus;
  }

  #entry(): Shown {
    const { status: _status, isReporting: _isReporting, ...patch } = this.patch;
    return { id: this.deviceId, ...patch };
  }
}

/** The change to send for a device that was read again. Live fields are left out, because they are sent separately. */
export function recordChange({
  id,
  presence: _presence,
  lastSeenAt: _lastSeenAt,
  metrics: _metrics,
  ...record
}: DeviceSummary): DeviceChange {
  return new DeviceChange(id, record);
}

/**
 * A connection, or reports over HTTP, decide only between online and offline. Another status stays: maintenance outlasts
 * a reconnect.
 */
export function statusAfter(before: DeviceStatus, patch: DevicePatch, decided?: DeviceStatus): DeviceStatus {
  if (decided !== undefined) return decided;
  if (before !== 'online' && before !== 'offline') return before;
  if (patch.presence === undefined && patch.isReporting === undefined) return before;
  return patch.presence?.state === 'connected' || patch.isReporting === true ? 'online' : 'offline';
}

/** Merges a patch with an earlier one. The result is the same as showing one after the other. */
export function patchAfter<P extends DevicePatch>(earlier: P, later: P): P {
  const merged = { ...earlier, ...later };
  // An explicit status in the earlier patch is older than the presence in the later one.
  if (earlier.status !== undefined) merged.status = statusAfter(earlier.status, later, later.status);
  return merged;
}

interface Location {
  orgId: string;
  siteId: string;
  partnerId: string;
}
export type SubscriptionScope = (device: Location) => boolean;

/** Returns the test whether a device is in the caller's scope and in the organization and site of the request. */
export function subscriptionScope(caller: Caller, { orgId, siteId }: DevicesSubscribe): SubscriptionScope {
  const mayAll = caller.scope === 'system';
  const organizations = caller.orgAccess === 'all' ? undefined : new Set(caller.orgIds);
  return (device) => {
    if (orgId !== undefined && orgId !== device.orgId) return false;
    if (siteId !== undefined && siteId !== device.siteId) return false;
    if (mayAll) return true;
    return organizations?.has(device.orgId) ?? caller.partnerId === device.partnerId;
  };
}

/**
 * The JSON of entries and counts. Subscribers to the same devices share entries, and the frames of a subscription share
 * counts until these change, so each object is serialized once.
 */
const serialized = new WeakMap<object, string>();

function textOf(part: DevicesDelta['changed'][number] | DevicesDelta['counts']): string {
  let text = serialized.get(part);
  if (text === undefined) {
    text = JSON.stringify(part);
    serialized.set(part, text);
  }
  return text;
}

/** The last result, because subscribers to the same devices are served one after the other. */
let last: { changed: DevicesDelta['changed']; end: EventJson['end'] } | undefined;

function endOf(changed: DevicesDelta['changed']): EventJson['end'] {
  const isSame =
    changed.length === last?.changed.length && changed.every((entry, at) => entry === last?.changed[at]);
  if (last === undefined || !isSame) {
    const text = `${changed.map(textOf).join(',')}]}]`;
    last = { changed, end: { text, bytes: Buffer.from(text) } };
  }
  return last.end;
}

const listText = (list: readonly unknown[]) => (list.length === 0 ? '[]' : JSON.stringify(list));

/**
 * `JSON.stringify(['devices:delta', delta])`, in a fraction of the time when many clients are sent the same changes. The
 * changes come last, so that they are encoded once for all clients.
 */
export function deltaEvent(delta: DevicesDelta): EventJson {
  const { subscriptionId, seq, changed, entered, left, counts, complete } = delta;
  return {
    start:
      `["devices:delta",{"subscriptionId":${JSON.stringify(subscriptionId)},"seq":${seq},` +
      `${complete === true ? '"complete":true,' : ''}"counts":${textOf(counts)},"entered":${listText(entered)},"left":${listText(left)},"changed":[`,
    end: endOf(changed),
  };
}
