import { AppError } from '../../platform/errors.ts';
import type { DeviceSummary } from '../../protocol/index.ts';
import type { DeviceChange } from '../subscriptions/device-change.ts';
import {
  ALL_FIELDS,
  type FieldMask,
  fieldMask,
  roundedAsStored,
  changedFields,
  NO_FIELDS,
  applyLiveState,
  summaryOf,
  SOFTWARE_NOT_LOADED,
} from './fleet-device.ts';
import type { FleetDevice, FleetStore, StoredDevice } from '../ports.ts';

/** Above this number all values are dropped, so that outdated values are not kept for ever. */
const KEPT_MAX = 500_000;

/** Keeps one copy of values that many devices share, such as the name of a model. */
class Interner {
  #known = new Map<string, unknown>();

  device(device: FleetDevice): FleetDevice {
    return {
      ...device,
      orgId: this.#text(device.orgId),
      partnerId: this.#text(device.partnerId),
      siteId: this.#text(device.siteId),
      groupIds: this.#list(device.groupIds),
      agentVersion: this.#text(device.agentVersion),
      tags: this.#list(device.tags),
      osVersion: this.#text(device.osVersion),
      osBuild: device.osBuild === null ? null : this.#text(device.osBuild),
      hardware: this.#texts(device.hardware),
      network: this.#texts(device.network),
      software: this.#list(device.software),
      customFields: this.#object(device.customFields),
    };
  }

  #text(text: string): string {
    return this.#once(text, () => text);
  }

  #list(texts: readonly string[]): readonly string[] {
    if (texts.length === 0) return NONE;
    // Long lists are rarely shared between devices.
    if (texts.length > LONG) return texts.map((text) => this.#text(text));
    return this.#once(`\0${JSON.stringify(texts)}`, () => texts.map((text) => this.#text(text)));
  }

  #texts<T extends object>(of: T): T {
    const shared = { ...of };
    for (const [key, value] of Object.entries(shared)) {
      if (typeof value === 'string') Object.assign(shared, { [key]: this.#text(value) });
    }
    return shared;
  }

  #object<T extends object>(object: T): T {
    return this.#once(`\0${JSON.stringify(object)}`, () => object);
  }

  /** @param key  the text; of anything else its JSON behind a NUL, which no text from the database has */
  #once<T>(key: string, value: () => T): T {
    const known = this.#known.get(key);
    if (known !== undefined) return known as T;
    if (this.#known.size >= KEPT_MAX) this.#known = new Map();
    const made = value();
    this.#known.set(key, made);
    return made;
  }
}

const NONE: readonly string[] = [];
const LONG = 20;

const DEVICES_PER_READ = 2000;
/** Each takes about 1.5 kB. Above this limit live filters are refused, so that they do not fill the server's memory. */
const DEVICES_MAX = 300_000;

interface OrgView {
  devices: Map<string, FleetDevice>;
  /** The number of subscriptions that need the organization. */
  holders: number;
  expected: number;
  hasSoftware: boolean;
  isFaulty: boolean;
  /** Whether subscriptions may already show its devices. */
  wasRead: boolean;
  ready: Promise<void>;
  /** While the organization is read: devices of which something newer is known. */
  touched: Set<string> | undefined;
}

interface Parts {
  store: Pick<FleetStore, 'slice'>;
  /** Adds the live state to a device that was read from the database. */
  refreshed: (stored: StoredDevice) => DeviceSummary;
  /** Called when a read finds a change that was not announced yet. */
  onFound?: (device: FleetDevice, fields: FieldMask) => void;
  devicesMax?: number;
}

/**
 * The devices of the organizations that live filters need, in memory and shared by all of them. An organization is read
 * for its first filter, kept current by changes, and dropped with the last filter.
 */
export class FleetView {
  readonly #parts: Parts;
  readonly #organizations = new Map<string, OrgView>();
  readonly #devices = new Map<string, FleetDevice>();
  #interner = new Interner();
  #loading = 0;
  /** Live changes during a read, whose result may contain the devices in an earlier state. */
  readonly #changedWhileReading = new Map<string, DeviceChange>();
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

  /** The number of subscriptions that need the organization. */
  holdersOf(orgId: string): number {
    return this.#organizations.get(orgId)?.holders ?? 0;
  }

  of(orgId: string): Iterable<FleetDevice> {
    return this.#organizations.get(orgId)?.devices.values() ?? [];
  }

  /**
   * Keeps the organizations in memory until they are released. Throws `unavailable` when they are too large.
   * @param organizations  each with its number of devices
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
        `Live filters on this server may cover ${most} devices. Limit the filter to one organization, or try again later.`,
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

  /** Loads installed software, because conditions read it. */
  holdSoftware(): void {
    this.#softwareReaders += 1;
    this.#load(this.#where(({ hasSoftware }) => !hasSoftware));
  }

  releaseSoftware(): void {
    this.#softwareReaders -= 1;
    if (this.#softwareReaders > 0) return;
    for (const organization of this.#organizations.values()) organization.hasSoftware = false;
    for (const device of this.#devices.values()) device.software = SOFTWARE_NOT_LOADED;
  }

  /** Resolves when the organizations that are held now have been read. */
  async ready(orgIds: Iterable<string>): Promise<void> {
    for (const orgId of orgIds) await this.#organizations.get(orgId)?.ready;
  }

  /** Reads everything again, because changes may have been missed. */
  reload(): void {
    this.#load([...this.#organizations.keys()]);
  }

  /** Applies a live change and returns the fields that changed. */
  deviceChanged(change: DeviceChange): FieldMask {
    const { deviceId, patch } = change;
    if (this.#loading > 0) {
      const earlier = this.#changedWhileReading.get(deviceId);
      this.#changedWhileReading.set(deviceId, earlier === undefined ? change : change.after(earlier));
    }
    const device = this.#devices.get(deviceId);
    if (device === undefined) return NO_FIELDS;
    let fields = NO_FIELDS;
    const status = change.statusAfter(device.status);
    if (status !== device.status) {
      device.status = status;
      fields |= STATUS;
    }
    if (patch.presence !== undefined) device.presence = patch.presence;
    if (patch.lastSeenAt !== undefined) {
      device.lastSeenAt = patch.lastSeenAt === null ? null : Date.parse(patch.lastSeenAt);
      fields |= LAST_SEEN;
    }
    if (patch.metrics !== undefined) {
      device.metrics = roundedAsStored(patch.metrics);
      fields |= METRICS;
    }
    if (patch.agentVersion !== undefined && patch.agentVersion !== device.agentVersion) {
      device.agentVersion = patch.agentVersion;
      fields |= AGENT_VERSION;
    }
    return fields;
  }

  /** Stores a device that was read again and returns the fields that changed: all of them for a new device. */
  put(read: FleetDevice): FieldMask {
    const before = this.#devices.get(read.id);
    const device = this.#interner.device(read);
    if (!this.withSoftware) device.software = SOFTWARE_NOT_LOADED;
    this.#touch(device.id);
    if (before !== undefined && before.orgId !== device.orgId) this.remove(device.id);
    const organization = this.#organizations.get(device.orgId);
    if (organization === undefined) return NO_FIELDS;
    organization.devices.set(device.id, device);
    this.#devices.set(device.id, device);
    return before === undefined ? ALL_FIELDS : changedFields(before, device);
  }

  remove(deviceId: string): void {
    this.#touch(deviceId);
    const device = this.#devices.get(deviceId);
    if (device === undefined) return;
    this.#organizations.get(device.orgId)?.devices.delete(deviceId);
    this.#devices.delete(deviceId);
  }

  /** Marks the device in every organization that is being read, because a read may find it where it was before. */
  #touch(deviceId: string): void {
    for (const { touched } of this.#organizations.values()) touched?.add(deviceId);
  }

  #where(test: (organization: OrgView) => boolean): string[] {
    return [...this.#organizations].flatMap(([orgId, organization]) => (test(organization) ? [orgId] : []));
  }

  /** Reads organizations. Reads of the same organization follow each other. */
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
    // Callers of `ready` get the error. There may be none.
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
        const read = await this.#parts.store.slice(orgIds, { after, atMost: DEVICES_PER_READ, withSoftware });
        for (const device of read) {
          const organization = organizations.get(device.orgId);
          if (organization === undefined || !isHeld(device.orgId)) continue;
          seen.add(device.id);
          if (organization.touched?.has(device.id) === true) continue;
          this.#insert(organization, device, withSoftware);
        }
        const last = read.at(-1);
        if (last === undefined || read.length < DEVICES_PER_READ) break;
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
      if (this.#loading === 0) this.#changedWhileReading.clear();
    }
  }

  #insert(organization: OrgView, read: FleetDevice, withSoftware: boolean): void {
    const device = this.#interner.device(read);
    if (!withSoftware) device.software = SOFTWARE_NOT_LOADED;
    const live = this.#parts.refreshed({ device: summaryOf(device), epoch: device.presenceEpoch });
    applyLiveState(device, this.#changedWhileReading.get(device.id)?.over(live) ?? live);
    const before = this.#devices.get(device.id);
    if (before !== undefined && before.orgId !== device.orgId) {
      this.#organizations.get(before.orgId)?.devices.delete(device.id);
    }
    organization.devices.set(device.id, device);
    this.#devices.set(device.id, device);
    if (before === undefined && !organization.wasRead) return;
    // Subscriptions that read software wait for the whole read and show its result then.
    const fields = before === undefined ? ALL_FIELDS : changedFields(before, device) & ~SOFTWARE;
    if (fields !== NO_FIELDS) this.#parts.onFound?.(device, fields);
  }
}

const NOT_READ = Promise.resolve();

const STATUS = fieldMask(['status']);
const LAST_SEEN = fieldMask(['lastSeenAt']);
const METRICS = fieldMask(['metrics']);
const AGENT_VERSION = fieldMask(['agentVersion']);
const SOFTWARE = fieldMask(['software']);
