import { AppError } from '../../platform/errors.ts';
import type { DeviceSummary } from '../../protocol/index.ts';
import type { DeviceChange } from '../subscriptions/device-change.ts';
import {
  ALL_ASPECTS,
  type Aspects,
  aspectsOf,
  asStored,
  differences,
  type FleetDevice,
  NOTHING,
  setLive,
  summaryOf,
  UNREAD,
} from './fleet-device.ts';
import { Interner } from './interner.ts';
import type { FleetStore } from '../ports.ts';

const SLICE = 2000;
/** Some 1.5 kB each. Beyond, a live filter is refused rather than the server's memory filled. */
const DEVICES_MAX = 300_000;

interface OrgView {
  devices: Map<string, FleetDevice>;
  /** Live filters that need it. */
  holders: number;
  expected: number;
  hasSoftware: boolean;
  isFaulty: boolean;
  /** Some live filter may have shown what is in it. */
  wasRead: boolean;
  ready: Promise<void>;
  /** While it is read: the devices of which something newer is known. */
  touched: Set<string> | undefined;
}

interface Parts {
  store: Pick<FleetStore, 'slice'>;
  /** The stored state with what is known live laid over it. */
  refreshed: (device: DeviceSummary) => DeviceSummary;
  /** A reading has found a device to be another one than was known, of which word has not come yet. */
  onFound?: (device: FleetDevice, aspects: Aspects) => void;
  devicesMax?: number;
}

/**
 * The devices of those organizations that live filters look at, in memory, shared by all of them. It is read when the
 * first one comes, follows what changes, and is forgotten when the last one goes.
 */
export class FleetView {
  readonly #parts: Parts;
  readonly #organizations = new Map<string, OrgView>();
  readonly #devices = new Map<string, FleetDevice>();
  #interner = new Interner();
  #loading = 0;
  /** What was told of devices while some are read: those may be among them, as they were before. */
  readonly #toldMeanwhile = new Map<string, DeviceChange>();
  #softwareReaders = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#devices.size;
  }

  /** Whether installed software is kept as well. */
  get withSoftware(): boolean {
    return this.#softwareReaders > 0;
  }

  get(deviceId: string): FleetDevice | undefined {
    return this.#devices.get(deviceId);
  }

  /** How many live filters look at the organization. */
  holdersOf(orgId: string): number {
    return this.#organizations.get(orgId)?.holders ?? 0;
  }

  of(orgId: string): Iterable<FleetDevice> {
    return this.#organizations.get(orgId)?.devices.values() ?? [];
  }

  /**
   * Keeps the organizations in memory until they are released. Throws `unavailable` where they are too large.
   * @param organizations  with how many devices they have
   */
  hold(organizations: readonly { orgId: string; devices: number }[]): void {
    const added = organizations.filter(({ orgId }) => !this.#organizations.has(orgId));
    let size = 0;
    for (const { devices, expected } of this.#organizations.values()) {
      size += Math.max(devices.size, expected);
    }
    for (const { devices } of added) size += devices;
    const most = this.#parts.devicesMax ?? DEVICES_MAX;
    if (size > most) {
      throw new AppError(
        'unavailable',
        `The live filters of this server may look at ${most} devices. Narrow it to an organization, or try later.`,
        { retryAfterMs: 60_000 },
      );
    }
    for (const { orgId, devices } of added) {
      this.#organizations.set(orgId, {
        devices: new Map(),
        holders: 0,
        expected: devices,
        hasSoftware: false,
        isFaulty: false,
        wasRead: false,
        ready: NOT_READ,
        touched: undefined,
      });
    }
    for (const { orgId } of organizations) {
      const organization = this.#organizations.get(orgId);
      if (organization !== undefined) organization.holders += 1;
    }
    this.#load(this.#where(({ ready, isFaulty }) => ready === NOT_READ || isFaulty));
  }

  release(orgIds: Iterable<string>): void {
    for (const orgId of orgIds) {
      const organization = this.#organizations.get(orgId);
      if (organization === undefined) continue;
      organization.holders -= 1;
      if (organization.holders > 0) continue;
      this.#organizations.delete(orgId);
      for (const id of organization.devices.keys()) this.#devices.delete(id);
    }
    if (this.#organizations.size === 0) this.#interner = new Interner();
  }

  /** Conditions that read software have come. */
  holdSoftware(): void {
    this.#softwareReaders += 1;
    this.#load(this.#where(({ hasSoftware }) => !hasSoftware));
  }

  releaseSoftware(): void {
    this.#softwareReaders -= 1;
    if (this.#softwareReaders > 0) return;
    for (const organization of this.#organizations.values()) organization.hasSoftware = false;
    for (const device of this.#devices.values()) device.software = UNREAD;
  }

  /** When all of the organizations have been read, as far as it is known now. */
  async ready(orgIds: Iterable<string>): Promise<void> {
    for (const orgId of orgIds) await this.#organizations.get(orgId)?.ready;
  }

  /** Reads everything anew: something may have been missed. */
  reload(): void {
    this.#load([...this.#organizations.keys()]);
  }

  /** What was told of a device. Answers what of it differs now. */
  told(change: DeviceChange): Aspects {
    const { deviceId, patch } = change;
    if (this.#loading > 0) {
      const earlier = this.#toldMeanwhile.get(deviceId);
      this.#toldMeanwhile.set(deviceId, earlier === undefined ? change : change.after(earlier));
    }
    const device = this.#devices.get(deviceId);
    if (device === undefined) return NOTHING;
    let aspects = NOTHING;
    const status = change.statusAfter(device.status);
    if (status !== device.status) {
      device.status = status;
      aspects |= STATUS;
    }
    if (patch.presence !== undefined) device.presence = patch.presence;
    if (patch.lastSeenAt !== undefined) {
      device.lastSeenAt = patch.lastSeenAt === null ? null : Date.parse(patch.lastSeenAt);
      aspects |= LAST_SEEN;
    }
    if (patch.metrics !== undefined) {
      device.metrics = asStored(patch.metrics);
      aspects |= METRICS;
    }
    if (patch.agentVersion !== undefined && patch.agentVersion !== device.agentVersion) {
      device.agentVersion = patch.agentVersion;
      aspects |= AGENT_VERSION;
    }
    return aspects;
  }

  /** The device as it was read anew. Answers what of it differs, which is all of one that was not there. */
  put(read: FleetDevice): Aspects {
    const before = this.#devices.get(read.id);
    const device = this.#interner.device(read);
    if (!this.withSoftware) device.software = UNREAD;
    this.#touch(device.id);
    if (before !== undefined && before.orgId !== device.orgId) this.remove(device.id);
    const organization = this.#organizations.get(device.orgId);
    if (organization === undefined) return NOTHING;
    organization.devices.set(device.id, device);
    this.#devices.set(device.id, device);
    return before === undefined ? ALL_ASPECTS : differences(before, device);
  }

  remove(deviceId: string): void {
    this.#touch(deviceId);
    const device = this.#devices.get(deviceId);
    if (device === undefined) return;
    this.#organizations.get(device.orgId)?.devices.delete(deviceId);
    this.#devices.delete(deviceId);
  }

  /** Wherever it is just being read, as it may be where it was before as well. */
  #touch(deviceId: string): void {
    for (const { touched } of this.#organizations.values()) touched?.add(deviceId);
  }

  #where(test: (organization: OrgView) => boolean): string[] {
    return [...this.#organizations].flatMap(([orgId, organization]) => (test(organization) ? [orgId] : []));
  }

  /** One reading after the other where they are of the same organization. */
  #load(orgIds: readonly string[]): void {
    const organizations = new Map<string, OrgView>();
    for (const orgId of orgIds) {
      const organization = this.#organizations.get(orgId);
      if (organization === undefined) continue;
      organization.hasSoftware = this.withSoftware;
      organization.isFaulty = false;
      organizations.set(orgId, organization);
    }
    if (organizations.size === 0) return;
    const before = Promise.allSettled([...organizations.values()].map(({ ready }) => ready));
    const reading = before.then(() => this.#read(organizations));
    // Whoever waits for it hears of it; nobody may.
    reading.catch(() => {});
    for (const organization of organizations.values()) organization.ready = reading;
  }

  async #read(organizations: ReadonlyMap<string, OrgView>): Promise<void> {
    const seen = new Set<string>();
    const isHeld = (orgId: string) => this.#organizations.get(orgId) === organizations.get(orgId);
    const withSoftware = this.withSoftware;
    this.#loading += 1;
    for (const organization of organizations.values()) organization.touched = new Set();
    try {
      const orgIds = [...organizations.keys()].sort();
      let after: { orgId: string; id: string } | undefined;
      for (;;) {
        const read = await this.#parts.store.slice(orgIds, { after, atMost: SLICE, withSoftware });
        for (const device of read) {
          const organization = organizations.get(device.orgId);
          if (organization === undefined || !isHeld(device.orgId)) continue;
          seen.add(device.id);
          if (organization.touched?.has(device.id) === true) continue;
          this.#insert(organization, device, withSoftware);
        }
        const last = read.at(-1);
        if (last === undefined || read.length < SLICE) break;
        after = { orgId: last.orgId, id: last.id };
      }
      for (const [orgId, organization] of organizations) {
        if (!isHeld(orgId)) continue;
        for (const id of organization.devices.keys()) {
          if (!seen.has(id) && organization.touched?.has(id) !== true) this.remove(id);
        }
        organization.expected = organization.devices.size;
        organization.wasRead = true;
      }
    } catch (error) {
      for (const organization of organizations.values()) organization.isFaulty = true;
      throw error;
    } finally {
      for (const organization of organizations.values()) organization.touched = undefined;
      this.#loading -= 1;
      if (this.#loading === 0) this.#toldMeanwhile.clear();
    }
  }

  #insert(organization: OrgView, read: FleetDevice, withSoftware: boolean): void {
    const device = this.#interner.device(read);
    if (!withSoftware) device.software = UNREAD;
    const live = this.#parts.refreshed(summaryOf(device));
    setLive(device, this.#toldMeanwhile.get(device.id)?.over(live) ?? live);
    const before = this.#devices.get(device.id);
    if (before !== undefined && before.orgId !== device.orgId) {
      this.#organizations.get(before.orgId)?.devices.delete(device.id);
    }
    organization.devices.set(device.id, device);
    this.#devices.set(device.id, device);
    if (before === undefined && !organization.wasRead) return;
    // Who asks for software waits for the reading, and is shown what it has found as a whole.
    const aspects = before === undefined ? ALL_ASPECTS : differences(before, device) & ~SOFTWARE;
    if (aspects !== NOTHING) this.#parts.onFound?.(device, aspects);
  }
}

const NOT_READ = Promise.resolve();

const STATUS = aspectsOf(['status']);
const LAST_SEEN = aspectsOf(['lastSeenAt']);
const METRICS = aspectsOf(['metrics']);
const AGENT_VERSION = aspectsOf(['agentVersion']);
const SOFTWARE = aspectsOf(['software']);
