import type { Caller } from '../../src/platform/context.ts';
import type {
  DeviceCounts,
  DevicesDelta,
  DeviceStatus,
  DeviceSummary,
  Presence,
} from '../../src/protocol/index.ts';

/** May see every device. */
export const CALLER: Caller = {
  scope: 'system',
  kind: 'user',
  userId: 'u',
  sessionId: 's',
  apiKeyId: null,
  email: 'e',
  name: 'n',
  partnerId: null,
  orgId: null,
  orgAccess: 'all',
  orgIds: [],
  roleId: 'r',
  roleName: 'r',
  permissions: new Set(),
  mfa: false,
  ipAllowlist: [],
};
export const presence = (state: Presence['state']): Presence => ({
  state,
  since: '2026-01-31T08:00:00.000Z',
  reason: state === 'connected' ? 'connected' : 'socket_closed',
});
export const summary = (id: string, status: DeviceStatus = 'offline', hostname = id): DeviceSummary => ({
  id,
  orgId: 'org',
  siteId: 'site',
  hostname,
  displayName: null,
  osType: 'linux',
  agentVersion: '1.0.0',
  status,
  maintenance: null,
  presence: presence(status === 'online' ? 'connected' : 'disconnected'),
  lastSeenAt: null,
  metrics: null,
});

/** What any client does with what it is sent. */
export class FeedClient {
  readonly devices = new Map<string, DeviceSummary>();
  counts: DeviceCounts | undefined;
  seq = 0;
  frames = 0;
  readonly faults: string[] = [];

  start(devices: readonly DeviceSummary[], { seq, counts }: { seq: number; counts: DeviceCounts }): void {
    for (const device of devices) this.devices.set(device.id, device);
    this.seq = seq;
    this.counts = counts;
  }

  take(delta: DevicesDelta): void {
    this.frames += 1;
    if (delta.seq !== this.seq + 1) this.faults.push(`seq ${this.seq} → ${delta.seq}`);
    this.seq = delta.seq;
    const ids = [...delta.changed.map(({ id }) => id), ...delta.entered.map(({ id }) => id), ...delta.left];
    if (new Set(ids).size !== ids.length) this.faults.push('a device twice in one frame');
    if (ids.length === 0 && delta.complete !== true) this.faults.push('an empty frame');
    for (const device of delta.entered) this.devices.set(device.id, device);
    for (const { id, ...patch } of delta.changed) {
      const known = this.devices.get(id);
      if (known === undefined) this.faults.push('a change of an unknown device');
      else this.devices.set(id, { ...known, ...patch } as DeviceSummary);
    }
    for (const id of delta.left) this.devices.delete(id);
    this.counts = delta.counts;
  }
}
