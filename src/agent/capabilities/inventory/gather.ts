import os from 'node:os';
import type { Hardware, Network, NetworkInterface, OsType } from '../../../protocol/index.ts';
import { diskSpace } from '../../os/machine/disk-space.ts';
import { fitted, type Gathered } from './fit.ts';
import { lookAtLinux } from './linux.ts';
import type { Look } from './collector.ts';
import { lookAtMacos } from './macos.ts';
import type { Sources } from './sources.ts';
import { lookAtWindows } from './windows.ts';

const LOOKS: Readonly<Record<OsType, Look>> = {
  linux: lookAtLinux,
  macos: lookAtMacos,
  windows: lookAtWindows,
};

/** Everything about the machine. Throws where a list cannot be read: what is missing would count as removed. */
export async function gatherInventory(sources: Sources, warn: (message: string) => void): Promise<Gathered> {
  const { hardware, primaryInterface, lastUser, software } = await LOOKS[sources.os](sources, {
    software: true,
  });
  const interfaces = networkInterfaces(sources.interfaces(), primaryInterface);
  const all = {
    hardware: { ...(await nodeHardware()), ...hardware },
    network: networkOf(interfaces),
    interfaces,
    lastUser,
    software,
  };
  return fitted(all, warn);
}

/** What an enrollment says of the machine, which must not fail for it. */
export async function gatherFacts(sources: Sources): Promise<{ hardware: Hardware; network: Network }> {
  const found = await LOOKS[sources.os](sources, { software: false }).catch(() => undefined);
  const all = {
    hardware: { ...(await nodeHardware()), ...found?.hardware },
    network: networkOf(networkInterfaces(sources.interfaces(), found?.primaryInterface)),
  };
  const { hardware = {}, network = {} } = fitted(all, () => {});
  return { hardware, network };
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

/** The one that leads to the world first. Where that is not known, it is the first with an address of its own. */
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
  const isThere = external.some(({ name }) => name === primaryInterface);
  const primary = isThere ? primaryInterface : external.find(hasOwnAddress)?.name;
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
