import os from 'node:os';
import type { Hardware, Network, NetworkInterface, OsType } from '../../../protocol/index.ts';
import { diskSpace } from '../../os/machine/disk-space.ts';
import { fitToLimits, type MachineInventory } from './fit.ts';
import { collectOnLinux } from './linux.ts';
import type { Collector } from './collector.ts';
import { collectOnMacos } from './macos.ts';
import { Reading } from '../../core/reading.ts';
import type { Sources } from './sources.ts';
import { collectOnWindows } from './windows.ts';

const COLLECTORS: Readonly<Record<OsType, Collector>> = {
  linux: collectOnLinux,
  macos: collectOnMacos,
  windows: collectOnWindows,
};

/** Collects everything that can be read, and names what cannot: the server keeps what it had from there. */
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

/** The primary interface comes first. Where the system does not name it, it is the first one with an IPv4 address. */
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
