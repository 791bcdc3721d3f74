import type { DevicesDelta, DeviceStatus, DeviceSummary, Metrics, Presence } from '../../protocol/index.ts';

export interface DevicePatch {
  presence?: Presence;
  /** Whether it sends heartbeats without a connection; not shown as such. */
  isReporting?: boolean | undefined;
  lastSeenAt?: string | null;
  metrics?: Metrics | null;
  status?: DeviceStatus;
  agentVersion?: string;
}

/** With what only the record of the device says. */
export interface ShownPatch
  extends DevicePatch,
    Partial<Pick<DeviceSummary, 'orgId' | 'siteId' | 'hostname' | 'displayName' | 'osType'>> {}

type Shown = DevicesDelta['changed'][number];

/**
 * What has changed of a device. One object for all who watch it: what one of them needs of it, such as the entry in its
 * frame, is made once for all, since most see the same.
 */
export class DeviceChange {
  readonly deviceId: string;
  readonly patch: ShownPatch;
  #shown: Shown | undefined;
  #shownWithStatus: Shown | undefined;
  #earlier: DeviceChange | undefined;
  #both: DeviceChange | undefined;

  constructor(deviceId: string, patch: ShownPatch) {
    this.deviceId = deviceId;
    this.patch = patch;
  }

  /** This change laid over one that came earlier and was not shown yet. */
  after(earlier: DeviceChange): DeviceChange {
    if (this.#both === undefined || this.#earlier !== earlier) {
      this.#earlier = earlier;
      this.#both = new DeviceChange(this.deviceId, patchAfter(earlier.patch, this.patch));
    }
    return this.#both;
  }

  statusAfter(before: DeviceStatus): DeviceStatus {
    return statusAfter(before, this.patch, this.patch.status);
  }

  /** The device as it is with this change. */
  over(device: DeviceSummary): DeviceSummary {
    const { status: _status, isReporting: _isReporting, ...patch } = this.patch;
    return { ...device, ...patch, status: this.statusAfter(device.status) };
  }

  /** The entry in a frame. @param status  where that has changed with it */
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

/** What a device that was read anew is to those who were shown it: without what the live side tells by itself. */
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
 * A connection, or reports without one, decide between online and offline, and over no other status: maintenance
 * outlives a reconnect.
 */
export function statusAfter(before: DeviceStatus, patch: DevicePatch, decided?: DeviceStatus): DeviceStatus {
  if (decided !== undefined) return decided;
  if (before !== 'online' && before !== 'offline') return before;
  if (patch.presence === undefined && patch.isReporting === undefined) return before;
  return patch.presence?.state === 'connected' || patch.isReporting === true ? 'online' : 'offline';
}

/** A patch laid over an earlier one that was not shown yet: as if one had been shown after the other. */
export function patchAfter<P extends DevicePatch>(earlier: P, later: P): P {
  const both = { ...earlier, ...later };
  // A status that was decided is older than the presence that follows it.
  if (earlier.status !== undefined) both.status = statusAfter(earlier.status, later, later.status);
  return both;
}
