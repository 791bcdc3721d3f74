import { clock } from '../../../clock.ts';
import {
  type FailedSource,
  type Hardware,
  type Inventory,
  INTERFACE_ADDRESSES_MAX,
  INTERFACES_MAX,
  INVENTORY_MAX_BYTES,
  type Network,
  type NetworkInterface,
  SOFTWARE_MAX,
  type SoftwareEntry,
} from '../../../protocol/index.ts';
import { firstCharacters } from '../../core/plain-text.ts';
import type { FoundSoftware } from './collector.ts';

/** An inventory without the time of its collection. */
export type MachineInventory = Omit<Inventory, 'collectedAt'>;

/** Changes what the machine reports to what the server accepts, so that one odd entry does not cost all others. Pure. */
export function fitToLimits(
  found: {
    hardware: Loose<Hardware>;
    network?: Loose<Network>;
    interfaces?: readonly NetworkInterface[];
    lastUser?: string | undefined;
    software?: readonly FoundSoftware[] | undefined;
    failed?: readonly FailedSource[];
  },
  warn: (message: string) => void,
): MachineInventory {
  const { interfaces, lastUser, software, network, failed = [] } = found;
  const inventory: MachineInventory = {
    hardware: withoutEmpty(found.hardware),
    ...(network === undefined ? {} : { network: networkWithin(network) }),
    ...(interfaces === undefined ? {} : { interfaces: interfaces.slice(0, INTERFACES_MAX).map(interfaceOf) }),
    ...(lastUser === undefined ? {} : { lastUser: cut(lastUser) }),
    ...(failed.length === 0 ? {} : { failed: [...failed] }),
  };
  if (software === undefined) return inventory;
  const entries = software.map(entryOf).filter(({ name }) => name !== '');
  const room = INVENTORY_MAX_BYTES - RESERVE_BYTES - bytesOf(inventory);
  return { ...inventory, software: withinLimits(entries.sort(byName), room, warn) };
}

type Loose<T> = { [K in keyof T]?: T[K] | undefined };

const MAC_LENGTH = 17;
/** Room for the names of the fields, and the time. */
const RESERVE_BYTES = 1000;
const EARLIEST_MS = 0;

const cut = (text: string, max = 255) => firstCharacters(text, max).trim();
const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

function withoutEmpty<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept = Object.entries(fields)
    .map(([name, value]) => [name, typeof value === 'string' ? cut(value) : (value as unknown)] as const)
    .filter(([, value]) => value !== undefined && value !== '');
  return Object.fromEntries(kept) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

const interfaceOf = ({ name, macAddress, ipAddresses, isPrimary }: NetworkInterface): NetworkInterface => ({
  name: cut(name),
  ...(macAddress === undefined ? {} : { macAddress: cut(macAddress, 64) }),
  ipAddresses: ipAddresses.slice(0, INTERFACE_ADDRESSES_MAX),
  isPrimary,
});

function networkWithin({ ipAddress, macAddress }: Loose<Network>): Network {
  // Some adapters, such as InfiniBand, have longer addresses than the server accepts.
  return withoutEmpty({ ipAddress, macAddress: macAddress?.slice(0, MAC_LENGTH) });
}

function entryOf({ name, version, publisher, installedAt, source }: FoundSoftware): SoftwareEntry {
  const isTime = installedAt !== undefined && installedAt > EARLIEST_MS && installedAt <= clock.now();
  return {
    name: cut(name),
    ...withoutEmpty({ version, publisher, source }),
    ...(isTime ? { installedAt: new Date(installedAt).toISOString() } : {}),
  };
}

// The order does not depend on how the entries were found, so that the same list has the same hash.
function byName(a: SoftwareEntry, b: SoftwareEntry): number {
  const [left, right] = [`${a.name}\0${a.version ?? ''}`, `${b.name}\0${b.version ?? ''}`];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Drops publishers and dates first, and then the end of the list. */
function withinLimits(
  entries: readonly SoftwareEntry[],
  room: number,
  warn: (message: string) => void,
): SoftwareEntry[] {
  let kept = entries.slice(0, SOFTWARE_MAX);
  if (bytesOf(kept) > room) {
    kept = kept.map(({ name, version, source }) => ({ name, ...withoutEmpty({ version, source }) }));
  }
  while (bytesOf(kept) > room) kept = kept.slice(0, Math.floor(kept.length * 0.9));
  const lost = entries.length - kept.length;
  if (lost > 0) warn(`The software list is too long: ${lost} of its ${entries.length} entries are not sent.`);
  return kept;
}
