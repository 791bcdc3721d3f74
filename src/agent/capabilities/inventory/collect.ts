import os from 'node:os';
import { clock } from '../../../clock.ts';
import {
  type Hardware,
  type Network,
  type NetworkInterface,
  type OsType,
  type Architecture,
  type EnrollRequest,
  type MachineIdentity,
  type FailedSource,
  type Inventory,
  INTERFACE_ADDRESSES_MAX,
  INTERFACES_MAX,
  INVENTORY_MAX_BYTES,
  SOFTWARE_MAX,
  type SoftwareEntry,
} from '../../../protocol/index.ts';
import { Reading, firstCharacters } from '../../core/plain-text.ts';
import { AGENT_VERSION } from '../../core/version.ts';
import { diskSpace, machineId, osType } from '../../os/machine.ts';
import { osVersion } from '../../os/os-version.ts';
import { collectOnLinux } from './linux.ts';
import { collectOnMacos } from './macos.ts';
import { type Sources, machineSources } from '../../os/machine-sources.ts';
import type { Collector, FoundSoftware } from './sources.ts';
import { collectOnWindows } from './windows.ts';

const COLLECTORS: Readonly<Record<OsType, Collector>> = {
  linux: collectOnLinux,
  macos: collectOnMacos,
  windows: collectOnWindows,
};

/** Collects everything that can be read, and lists the sources that failed: the server keeps their earlier entries. */
export async function collectInventory(
  sources: Sources,
  warn: (message: string) => void,
): Promise<MachineInventory> {
  const reading = new Reading();
  const { lastUser, software, ...facts } = await read(sources, { software: true, reading });
  return fitToLimits({ ...facts, lastUser, software, failed: reading.failed }, warn);
}

/** Collects the facts for an enrollment, which must not fail because of them. */
export async function collectFacts(sources: Sources): Promise<{ hardware: Hardware; network: Network }> {
  const facts = await read(sources, { software: false, reading: new Reading() });
  const { hardware = {}, network = {} } = fitToLimits(
    { hardware: facts.hardware, network: facts.network ?? {} },
    () => {},
  );
  return { hardware, network };
}

async function read(sources: Sources, options: { software: boolean; reading: Reading }) {
  const { reading } = options;
  const found = await COLLECTORS[sources.os](sources, options);
  const interfaces = await reading.from('interfaces', () =>
    networkInterfaces(sources.interfaces(), found.primaryInterface),
  );
  const ofNode = await reading.from('system', nodeHardware);
  return {
    hardware: { ...ofNode, ...found.hardware },
    ...(interfaces === undefined ? {} : { interfaces, network: networkOf(interfaces) }),
    lastUser: found.lastUser,
    software: found.software,
  };
}

async function nodeHardware(): Promise<Hardware> {
  const cpus = os.cpus();
  const disk = await diskSpace();
  return {
    cpuModel: cpus[0]?.model,
    cpuCores: Math.max(cpus.length, 1),
    ramTotalMb: Math.round(os.totalmem() / 2 ** 20),
    diskTotalGb: disk === undefined ? undefined : Math.round(disk.total / 2 ** 30),
  };
}

/** The primary interface comes first: the one that the system names, or else the first one with an IPv4 address. */
export function networkInterfaces(
  found: NodeJS.Dict<os.NetworkInterfaceInfo[]>,
  primaryInterface: string | undefined,
): NetworkInterface[] {
  const external = Object.entries(found).flatMap(([name, addresses = []]) => {
    const [first] = addresses;
    if (first === undefined || addresses.some(({ internal }) => internal)) return [];
    const ipAddresses = addresses.map(({ address }) => address.replace(/%.*$/, ''));
    return [{ name, macAddress: first.mac, ipAddresses }];
  });
  const isKnown = external.some(({ name }) => name === primaryInterface);
  const primary = isKnown ? primaryInterface : external.find(hasOwnAddress)?.name;
  return external
    .map((one) => ({ ...one, isPrimary: one.name === primary }))
    .sort((a, b) => Number(b.isPrimary) - Number(a.isPrimary));
}

const isLinkLocal = (address: string) => /^(169\.254\.|fe[89ab])/i.test(address);
const hasOwnAddress = ({ ipAddresses }: Pick<NetworkInterface, 'ipAddresses'>) =>
  ipAddresses.some((address) => !isLinkLocal(address) && !address.includes(':'));

function networkOf(interfaces: readonly NetworkInterface[]): Network {
  const primary = interfaces.find(({ isPrimary }) => isPrimary);
  const own = primary?.ipAddresses.filter((address) => !isLinkLocal(address)) ?? [];
  return {
    ipAddress: own.find((address) => !address.includes(':')) ?? own[0],
    macAddress: primary?.macAddress,
  };
}

/** How long a connection waits for the serial number, which some systems return only after many seconds. */
const PATIENCE_MS = 1000;

/** Identity of the machine, which the agent sends with each connection. */
export class OwnIdentity {
  readonly #sources: Sources;
  readonly #hostname: () => string;
  #serial: Promise<string | undefined> | undefined;

  /** @param hostname  the configured name of the machine, in place of its own */
  constructor(sources: Sources, hostname: () => string = os.hostname) {
    this.#sources = sources;
    this.#hostname = hostname;
  }

  /** The serial number is read once: it changes with the mainboard only. If it was late, a later connection sends it. */
  async read(): Promise<MachineIdentity> {
    this.#serial ??= collectFacts(this.#sources).then(
      ({ hardware }) => hardware.serialNumber,
      () => undefined,
    );
    const serialNumber = await Promise.race([this.#serial, clock.sleep(PATIENCE_MS).then(() => undefined)]);
    return {
      hostname: this.#hostname(),
      macAddresses: this.#macAddresses(),
      ...(serialNumber === undefined ? {} : { serialNumber }),
    };
  }

  #macAddresses(): string[] {
    try {
      const all = Object.values(this.#sources.interfaces()).flat();
      return all.flatMap((one) => (one === undefined || one.internal ? [] : one.mac));
    } catch {
      // Some containers forbid it.
      return [];
    }
  }
}

/** What the agent reports about its machine when it enrolls. */
export async function describeMachine(): Promise<Omit<EnrollRequest, 'enrollmentKey'>> {
  const id = await machineId();
  return {
    hostname: os.hostname(),
    osType: osType(),
    osVersion: await osVersion(),
    osBuild: os.release(),
    architecture: architecture(),
    agentVersion: AGENT_VERSION,
    ...(await collectFacts(machineSources())),
    ...(id === undefined ? {} : { machineId: id }),
  };
}

function architecture(): Architecture {
  const name = os.arch();
  return name === 'arm64' ? 'arm64' : name === 'ia32' ? 'x86' : 'x64';
}

/** An inventory without the time of its collection. */
export type MachineInventory = Omit<Inventory, 'collectedAt'>;

/** Adapts a report to the limits of the server, so that one odd entry does not cost all others. Pure. */
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
  };
  const missing = [...failed, ...omission('interfaces', interfaces, inventory.interfaces)];
  const told = () => (missing.length === 0 ? {} : { failed: missing });
  if (software === undefined) return { ...inventory, ...told() };
  const entries = software.map(entryOf).filter(({ name }) => name !== '');
  const room = INVENTORY_MAX_BYTES - RESERVE_BYTES - bytesOf(inventory);
  const kept = withinLimits(entries.sort(byName), room, warn);
  missing.push(...omission('software', entries, kept));
  return { ...inventory, software: kept, ...told() };
}

/** No entry has one of these sources, so such a source counts as failed. */
function omission(
  source: 'interfaces' | 'software',
  all: readonly unknown[] = [],
  kept: readonly unknown[] = [],
): FailedSource[] {
  const lost = all.length - kept.length;
  const message = `${lost} of the ${all.length} entries are not sent: the list is too long.`;
  return lost > 0 ? [{ source, message }] : [];
}

type Loose<T> = { [K in keyof T]?: T[K] | undefined };

/** Reserve for the names of the fields, and the time. */
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
  ...(ipAddresses.length > INTERFACE_ADDRESSES_MAX ? { addressCount: ipAddresses.length } : {}),
  isPrimary,
});

function networkWithin({ ipAddress, macAddress }: Loose<Network>): Network {
  return withoutEmpty({ ipAddress, macAddress });
}

function entryOf({ name, version, publisher, installedAt, source }: FoundSoftware): SoftwareEntry {
  const isTime = installedAt !== undefined && installedAt > EARLIEST_MS && installedAt <= clock.now();
  return {
    name: cut(name),
    ...withoutEmpty({ version, publisher, source }),
    ...(isTime ? { installedAt: new Date(installedAt).toISOString() } : {}),
  };
}

// Sorted, so that the same list has the same hash however its entries were found.
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
