import type { DevicesDelta, DeviceStatus, DeviceSummary, Metrics, Presence } from '../../protocol/index.ts';

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
export interface ShownPatch
  extends DevicePatch,
    Partial<Pick<DeviceSummary, 'orgId' | 'siteId' | 'hostname' | 'displayName' | 'osType'>> {}

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
