import { access, readFile } from 'node:fs/promises';
import os from 'node:os';
import type { MachineDescription } from '../../../engine/index.ts';
import { osVersion } from '../../os/machine/os-version.ts';

/** What the machine is, beside its disks. */

const DMI = '/sys/class/dmi/id';
const FSTAB_MAX = 60_000;
/** What manufacturers leave in place of a name or a number. */
const PLACEHOLDER = /^(to be filled|default string|not specified|system (product|serial)|none$|0+$)/i;

type Facts = Pick<
  MachineDescription,
  'machine' | 'system' | 'bootMode' | 'memoryBytes' | 'processors' | 'hardware' | 'fstab'
>;

/** @param isOwn  the disks are those of this machine; otherwise they are files, and nothing is known of theirs */
export async function describeThisMachine(host: string, isOwn: boolean): Promise<Facts> {
  if (!isOwn) {
    const unknown = { system: null, bootMode: null, memoryBytes: null, processors: null };
    return { machine: host, ...unknown, hardware: null, fstab: null };
  }
  const fstab = await readFile('/etc/fstab', 'utf8').catch(() => null);
  return {
    machine: host,
    system: (await osVersion()).slice(0, 255),
    bootMode: await bootMode(),
    memoryBytes: os.totalmem(),
    processors: Math.max(1, os.cpus().length),
    hardware: {
      vendor: await dmi('sys_vendor'),
      product: await dmi('product_name'),
      serial: await dmi('product_serial'),
      board: await dmi('board_name'),
    },
    fstab: fstab === null || fstab.length > FSTAB_MAX ? null : fstab,
  };
}

/** How this machine was started. */
export const bootMode = (): Promise<'uefi' | 'bios'> =>
  access('/sys/firmware/efi').then(
    () => 'uefi' as const,
    () => 'bios' as const,
  );

async function dmi(name: string): Promise<string | null> {
  const text = (await readFile(`${DMI}/${name}`, 'utf8').catch(() => '')).trim();
  return text === '' || PLACEHOLDER.test(text) ? null : text.slice(0, 255);
}
