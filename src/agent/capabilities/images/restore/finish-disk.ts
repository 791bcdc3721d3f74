import type { FileHandle } from 'node:fs/promises';
import type { MachineDescription, MachineDisk } from '../../../../engine/index.ts';
import { readOutput } from '../../../os/processes/child-process.ts';
import { findProgram } from '../../../os/processes/find-program.ts';
import { readFrom } from '../../../os/partitions/read-at.ts';
import { describeTable, describeVolumes } from '../../../os/partitions/volumes.ts';

/** What shows that a machine can start from a disk whose content is there. */

export interface DiskCheck {
  name: string;
  ok: boolean;
  message?: string;
}

interface Checked {
  handle: FileHandle;
  path: string;
  /** Of the target. */
  targetBytes: number;
  disk: MachineDisk;
  machine: MachineDescription;
  /** Whether a machine starts from this disk. */
  isBootDisk: boolean;
  signal: AbortSignal;
}

const FSCK_MS = 30 * 60_000;

export async function checkDisk({
  handle,
  path,
  targetBytes,
  disk,
  machine,
  isBootDisk,
  signal,
}: Checked): Promise<DiskCheck[]> {
  const read = readFrom(handle);
  const table = (await describeTable(read, disk.sectorBytes)) ?? null;
  const expected = disk.partitionTable?.partitions.length ?? 0;
  const found = table?.partitions.length ?? 0;
  const checks: DiskCheck[] = [
    {
      name: 'partition table',
      ok: found === expected,
      message: `${found} of ${expected} partitions are there.`,
    },
  ];
  const volumes = await describeVolumes(read, { sizeBytes: targetBytes, partitionTable: table });
  const missing = disk.volumes.filter(
    ({ type, uuid, offset }) =>
      type !== 'unknown' &&
      !volumes.some((each) => each.offset === offset && each.type === type && each.uuid === uuid),
  );
  checks.push({
    name: 'file systems',
    ok: missing.length === 0,
    message: `${disk.volumes.length - missing.length} of ${disk.volumes.length} volumes are there.`,
  });
  const { bootMode } = machine;
  if (isBootDisk && bootMode !== null) checks.push(await checkLoader(read, volumes, bootMode));
  for (const { type, offset, partition } of volumes) {
    if (type === 'ext') checks.push(await checkExt(path, offset, partition, signal));
  }
  return checks;
}

/** A disk that starts in both ways, or in none, is not judged. */
async function checkLoader(
  read: ReturnType<typeof readFrom>,
  volumes: readonly { type: string }[],
  bootMode: NonNullable<MachineDescription['bootMode']>,
): Promise<DiskCheck> {
  const ok =
    bootMode === 'uefi'
      ? volumes.some(({ type }) => type === 'vfat')
      : (await read(0, 440)).some((byte) => byte !== 0);
  return {
    name: 'boot loader',
    ok,
    message: ok ? `Found for ${bootMode}.` : `None was found for ${bootMode}.`,
  };
}

/** Nothing is changed. A journal that has something to say is no fault: the machine replays it when it starts. */
async function checkExt(
  path: string,
  offset: number,
  partition: number | null,
  signal: AbortSignal,
): Promise<DiskCheck> {
  const name = `file system of partition ${partition ?? 0}`;
  const program = await findProgram(['e2fsck'], `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`);
  if (program === undefined || path.includes('?')) {
    return { name, ok: true, message: 'Not checked: e2fsck is not on this machine.' };
  }
  try {
    await readOutput(program, ['-fn', `${path}?offset=${offset}`], { signal, timeoutMs: FSCK_MS });
    return { name, ok: true };
  } catch (error) {
    signal.throwIfAborted();
    return {
      name,
      ok: false,
      message: (error instanceof Error ? error.message : String(error)).slice(0, 300),
    };
  }
}
