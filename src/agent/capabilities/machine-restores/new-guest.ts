import { randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import path from 'node:path';
import type { CommandPayload, VmNetwork } from '../../../protocol/index.ts';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import {
  probeAccelerator,
  type Accelerator,
  type GuestDefinition,
  type GuestNetwork,
  type Guests,
} from '../../os/qemu/guest-definition.ts';
import { findFirmware, findQemu, listBridges, type QemuPrograms } from '../../os/qemu/disk-images.ts';
import { targetError, type BackupParts } from '../../repository/local-engine.ts';
import { checkTargetPath, openTarget } from '../../repository/target-folder.ts';
import { hypervisorMissing, machineError } from './machine-error.ts';
import type { SnapshotMounts } from './snapshot-mounts.ts';

/** Dependencies of all commands that restore machines. */
export interface MachineParts extends BackupParts {
  guests: Guests;
  mounts: SnapshotMounts;
  accelerators: Accelerators;
}

/**
 * Whether qemu can accelerate machines. The check takes a moment, and its result does not change while the agent runs.
 */
export class Accelerators {
  readonly #known = new Map<string, Promise<Accelerator>>();

  of(qemu: string): Promise<Accelerator> {
    const known = this.#known.get(qemu) ?? probeAccelerator(qemu);
    this.#known.set(qemu, known);
    return known;
  }
}

/** Choices and checks that come before anything is copied. */

export type WantedVm = Pick<
  CommandPayload<'backup.vm-instant-boot'>,
  'restoreId' | 'image' | 'vmName' | 'memoryMb' | 'cpuCount' | 'network' | 'targetPath'
>;

export async function needQemu(): Promise<QemuPrograms> {
  const qemu = await findQemu();
  if (qemu === undefined) throw hypervisorMissing();
  return qemu;
}

/** A machine without disks. Throws if this host cannot run it. */
export async function planGuest(
  { restoreId, image, vmName, memoryMb, cpuCount, network }: WantedVm,
  folder: string,
): Promise<Omit<GuestDefinition, 'disks'>> {
  const bootMode = image.bootMode ?? 'bios';
  if (bootMode === 'uefi' && (await findFirmware()) === undefined) {
    throw machineError(
      'FIRMWARE_MISSING',
      'The machine starts by UEFI, for which this device lacks the firmware. Install the package ovmf there.',
    );
  }
  return {
    id: restoreId,
    name: vmName,
    folder,
    memoryMiB: memoryMb,
    processors: cpuCount,
    bootMode,
    // Windows contains no virtio drivers.
    bus: /windows/i.test(image.system ?? '') ? 'sata' : 'virtio',
    macAddress: `52:54:00:${[...randomBytes(3)].map((byte) => byte.toString(16).padStart(2, '0')).join(':')}`,
    network: await planNetwork(network),
  };
}

async function planNetwork(network: VmNetwork): Promise<GuestNetwork> {
  if (network.type === 'none') return network;
  if (network.type === 'bridge') {
    if (!(await listBridges()).includes(network.bridge)) {
      throw machineError('HYPERVISOR_FAILED', `This device has no network bridge ${network.bridge}.`);
    }
    return network;
  }
  const ports = await freePorts(network.forwards.length);
  const forwards = network.forwards.map((guestPort, index) => ({ hostPort: ports[index] ?? 0, guestPort }));
  return { type: 'user', isIsolated: network.isIsolated, forwards };
}

/** Free ports of the loopback address. They are held together, so that they differ. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  try {
    const ports: number[] = [];
    for (const server of servers) {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(0, '127.0.0.1', resolve);
      });
      const address = server.address();
      if (typeof address === 'object' && address !== null) ports.push(address.port);
    }
    return ports;
  } finally {
    await Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))));
  }
}

/**
 * A new folder for the disks. A given path is resolved like that of a restore, and no other user may be able to
 * replace its content, because qemu opens its files by name.
 */
export async function openGuestFolder(
  { restoreId, targetPath }: Pick<WantedVm, 'restoreId' | 'targetPath'>,
  { guests, dataDir }: { guests: Guests; dataDir: string },
): Promise<string> {
  if (targetPath === undefined) return openPrivateFolder(guests.folderOf(restoreId));
  checkTargetPath(targetPath, dataDir);
  const target = await openTarget(targetPath);
  try {
    checkTargetPath(target.path, dataDir);
    return await openPrivateFolder(path.join(target.path, `muster-machine-${restoreId}`)).catch(
      (error: unknown) => {
        throw targetError('TARGET_UNSAFE', error instanceof Error ? error.message : String(error));
      },
    );
  } finally {
    await target.close();
  }
}
