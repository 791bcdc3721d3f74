import {
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

/** All that an inventory says, but when. */
export type Gathered = Omit<Inventory, 'collectedAt'>;

/** Makes of whatever a machine says what the server takes: one odd entry must not cost all the others. Pure. */
export function fitted(
  found: {
    hardware: Loose<Hardware>;
    network: Loose<Network>;
    interfaces?: readonly NetworkInterface[];
    lastUser?: string | undefined;
    software?: readonly FoundSoftware[] | undefined;
  },
  warn: (message: string) => void,
): Gathered {
  const { interfaces, lastUser, software } = found;
  const { ipAddress, macAddress } = found.network;
  const gathered: Gathered = {
    hardware: withoutGaps(found.hardware),
    // Of some adapters the address is longer than those of all others.
    network: withoutGaps({ ipAddress, macAddress: macAddress?.slice(0, MAC_LENGTH) }),
    ...(interfaces === undefined ? {} : { interfaces: interfaces.slice(0, INTERFACES_MAX).map(interfaceOf) }),
    ...(lastUser === undefined ? {} : { lastUser: cut(lastUser) }),
  };
  if (software === undefined) return gathered;
  const entries = software.map(entryOf).filter(({ name }) => name !== '');
  const room = INVENTORY_MAX_BYTES - RESERVE_BYTES - bytesOf(gathered);
  return { ...gathered, software: withinBounds(entries.sort(byName), room, warn) };
}

type Loose<T> = { [K in keyof T]?: T[K] | undefined };

const MAC_LENGTH = 17;
/** For the names of the parts, and the time. */
const RESERVE_BYTES = 1000;
const EARLIEST_MS = 0;

const cut = (text: string, max = 255) => firstCharacters(text, max).trim();
const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

function withoutGaps<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
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

function entryOf({ name, version, publisher, installedAt }: FoundSoftware): SoftwareEntry {
  const isTime = installedAt !== undefined && installedAt > EARLIEST_MS && installedAt <= Date.now();
  return {
    name: cut(name),
    ...withoutGaps({ version, publisher }),
    ...(isTime ? { installedAt: new Date(installedAt).toISOString() } : {}),
  };
}

// In an order that does not depend on how they were found, so that the same list is the same text.
function byName(a: SoftwareEntry, b: SoftwareEntry): number {
  const [left, right] = [`${a.name}\0${a.version ?? ''}`, `${b.name}\0${b.version ?? ''}`];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Of too much, first what is nice to know goes, then the end of the list. */
function withinBounds(
  entries: readonly SoftwareEntry[],
  room: number,
  warn: (message: string) => void,
): SoftwareEntry[] {
  let kept = entries.slice(0, SOFTWARE_MAX);
  if (bytesOf(kept) > room) kept = kept.map(({ name, version }) => ({ name, ...withoutGaps({ version }) }));
  while (bytesOf(kept) > room) kept = kept.slice(0, Math.floor(kept.length * 0.9));
  const lost = entries.length - kept.length;
  if (lost > 0) warn(`Of ${entries.length} entries of software ${lost} are too many to be sent.`);
  return kept;
}
