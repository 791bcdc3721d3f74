import { open, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { dump, type MachineVolume } from '../../../engine/index.ts';
import {
  type CommandOutput,
  type CommandPayload,
  type VmDiskFormat,
  shortened,
} from '../../../protocol/index.ts';
import { fitTable, growFileSystem, describeTable, describeVolumes } from '../../os/partition-tables.ts';
import { type QemuPrograms, convertImage, imageInfo } from '../../os/qemu/disk-images.ts';
import type { GuestDefinition, GuestDisk } from '../../os/qemu/guest-definition.ts';
import { endGuest, startGuest, guestState } from '../../os/qemu/guest-process.ts';
import type { DurableContext } from '../../work/handler.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { withRepository } from '../../repository/repository-work.ts';
import { writeDisks, checkDisks, IMAGE_PATH } from './disk-writer.ts';
import { accessOf } from './instant-boots.ts';
import { machineError } from './machine-error.ts';
import { type MachineParts, needQemu, openGuestFolder, planGuest } from './new-guest.ts';
import { readFrom } from '../../os/read-disk.ts';
import { readOutput } from '../../os/child-process.ts';

type Payload = CommandPayload<'backup.vm-from-image'>;
type Output = CommandOutput<'backup.vm-from-image'>;
type Context = DurableContext<'backup.vm-from-image'>;

const GIB = 1024 ** 3;

/** Creates a machine with its own disks from a snapshot. An incomplete one is removed. */
export const restoreVm = (parts: MachineParts) => ({
  stopMs: STOP_MS,
  run: async (payload: Payload, context: Context): Promise<Output> => {
    const startedAt = clock.monotonic();
    const { guests } = parts;
    const qemu = await needQemu();
    checkDisks(payload.image, Number.MAX_SAFE_INTEGER);
    const known = await guests.read(payload.restoreId);
    if (known !== undefined) throw machineError('HYPERVISOR_FAILED', 'The machine is there already.');
    assertGrows(payload);
    const folder = await openGuestFolder(payload, parts);
    try {
      const planned = await planGuest(payload, folder);
      const raw = await fetchDisks(parts, folder, payload, context);
      context.progress({ phase: 'checking' });
      const warnings = await findingsOf(raw);
      warnings.unshift(...(await resizeDisks(raw, payload, context.signal)));
      const disks: FinishedDisk[] = [];
      for (const [index, file] of raw.entries()) {
        context.progress({ phase: 'converting', path: path.basename(file) });
        disks.push(await finishDisk(qemu.image, { file, index, payload }, context.signal));
      }
      const shown = await Promise.all(disks.map(({ file }) => shownDisk(qemu.image, folder, file)));
      const made = await makeGuest({ ...planned, disks }, { parts, qemu, payload, context, warnings });
      return {
        ...made,
        folder,
        disks: shown,
        warnings: atMostWarnings(warnings),
        seconds: (clock.monotonic() - startedAt) / 1000,
      };
    } catch (error) {
      await endGuest({ id: payload.restoreId, folder }, 'kill');
      await guests.remove({ id: payload.restoreId, folder });
      throw error;
    }
  },
});

interface FinishedDisk extends Omit<GuestDisk, 'format'> {
  format: VmDiskFormat;
}

interface Making {
  parts: MachineParts;
  qemu: QemuPrograms;
  payload: Payload;
  context: Context;
  warnings: string[];
}

/** Defines the machine, and starts it if that was requested. Disks for another hypervisor get no machine. */
async function makeGuest(
  { disks, ...planned }: Omit<GuestDefinition, 'disks'> & { disks: readonly FinishedDisk[] },
  { parts, qemu, payload, context, warnings }: Making,
): Promise<Pick<Output, 'state' | 'console' | 'forwards'>> {
  const own = disks.flatMap(({ format, ...disk }): GuestDisk[] =>
    format === 'vhdx' ? [] : [{ ...disk, format }],
  );
  if (own.length < disks.length) {
    warnings.unshift(
      planned.bootMode === 'uefi'
        ? 'The machine starts by UEFI: in Hyper-V it needs generation 2.'
        : 'The machine starts by BIOS: in Hyper-V it needs generation 1.',
    );
    return { state: 'stopped', console: null, forwards: [] };
  }
  const guest: GuestDefinition = { ...planned, disks: own, startedAt: clock.date().toISOString() };
  await parts.guests.write(guest);
  if (payload.start) {
    context.progress({ phase: 'starting' });
    const accelerator = await parts.accelerators.of(qemu.system);
    await startGuest(guest, { qemu, accelerator }).catch((error: unknown) => {
      // Its disks are complete, so the machine can be started once the cause is fixed.
      warnings.unshift(
        error instanceof Error ? shortened(error.message, 500) : 'The machine does not start.',
      );
    });
  }
  return { state: await guestState(guest), ...accessOf(guest) };
}

/** Hyper-V accepts no other sizes. */
const VHDX_BYTES = 1024 ** 2;

/** Reads raw disks, whose tables can be parsed. Returns warnings for people. */
async function resizeDisks(
  files: readonly string[],
  { diskSizeGb, grow = false, format, image }: Payload,
  signal: AbortSignal,
): Promise<string[]> {
  const warnings: string[] = [];
  for (const [index, file] of files.entries()) {
    const disk = image.disks[index];
    if (disk === undefined) continue;
    const wanted = index === 0 && diskSizeGb !== undefined ? diskSizeGb * GIB : disk.sizeBytes;
    const bytes = format === 'vhdx' ? Math.ceil(wanted / VHDX_BYTES) * VHDX_BYTES : wanted;
    if (bytes === disk.sizeBytes) continue;
    const handle = await open(file, 'r+');
    try {
      await handle.truncate(bytes);
      const grown = await fitTable(handle, disk, bytes, grow && index === 0);
      if (grown === undefined) continue;
      const notGrown = await growFileSystem(handle, file, grown, signal);
      if (notGrown !== undefined) warnings.push(notGrown);
    } finally {
      await handle.close();
    }
  }
  return warnings;
}

function assertGrows({ diskSizeGb, image }: Payload): void {
  const [first] = image.disks;
  if (diskSizeGb === undefined || first === undefined || diskSizeGb * GIB >= first.sizeBytes) return;
  const least = Math.ceil(first.sizeBytes / GIB);
  throw machineError(
    'IMAGE_UNUSABLE',
    `The first disk needs ${first.sizeBytes} bytes (${least} GiB), and a disk can only become larger.`,
  );
}

async function fetchDisks(
  parts: MachineParts,
  folder: string,
  payload: Payload,
  context: Context,
): Promise<string[]> {
  const { snapshotId, image, imagePath = IMAGE_PATH } = payload;
  const total = image.disks.reduce((end, { offset, sizeBytes }) => Math.max(end, offset + sizeBytes), 0);
  return withRepository(parts, { payload, context }, async ({ engine, repository, options }) => {
    const archive = dump(engine, repository, { snapshotId, path: imagePath }, options);
    return writeDisks(archive, image, folder, (done) =>
      context.progress({
        phase: 'restoring',
        done: Math.min(done, total),
        total,
        percent: Math.min(100, Math.floor((1000 * done) / total) / 10),
      }),
    );
  });
}

interface Finish {
  file: string;
  index: number;
  payload: Payload;
}

async function finishDisk(
  tool: string,
  { file, index, payload }: Finish,
  signal: AbortSignal,
): Promise<FinishedDisk> {
  const { format, image } = payload;
  const name = `disk${index}.${format}`;
  const finished = path.join(path.dirname(file), name);
  if (format !== 'raw') {
    // Under another name until it is complete.
    const draft = `${finished}.part`;
    await convertImage(tool, { from: { file, format: 'raw' }, to: draft, format }, signal);
    await rename(draft, finished);
    await rm(file);
  }
  return { file: name, format, sectorBytes: image.disks[index]?.sectorBytes === 4096 ? 4096 : 512 };
}

async function shownDisk(tool: string, folder: string, file: string): Promise<Output['disks'][number]> {
  const whole = path.join(folder, file);
  const [{ virtualBytes }, { blocks }] = await Promise.all([imageInfo(tool, whole), stat(whole)]);
  return { name: file, sizeBytes: virtualBytes, storedBytes: blocks * 512 };
}

/**
 * Problems that can be found before the start of a restored system, and that keep it from starting in other hardware.
 * Nothing is mounted, and the problems are only reported: fixing them needs the running system.
 */

const SECTOR = 512;
const READ_MS = 20_000;
const TEXT_MAX = 200_000;

interface Volume {
  offset: number;
  type: MachineVolume['type'];
  uuid: string | undefined;
}

/** Warnings for people about disks that are raw files. */
async function findingsOf(files: readonly string[]): Promise<string[]> {
  const found = (
    await Promise.all(files.map((file) => volumesOf(file).then((all) => ({ file, all }))))
  ).flatMap(({ file, all }) => all.map((volume) => ({ file, ...volume })));
  const uuids = new Set(found.flatMap(({ uuid }) => uuid ?? []));
  const warnings: string[] = [];
  for (const volume of found.filter(({ type }) => type === 'ext')) {
    const read = (name: string) => readFromExt(volume, name);
    const table = await read('/etc/fstab');
    if (table === undefined) continue;
    warnings.push(...fstabFindings(table, uuids));
    warnings.push(...initramfsFindings(await read('/etc/initramfs-tools/initramfs.conf')));
  }
  if (found.length > 0 && !found.some(({ type }) => type === 'ext')) {
    warnings.push(
      'The file systems of the machine cannot be read without starting it, so nothing was checked.',
    );
  }
  return warnings;
}

const WARNINGS_MAX = 50;

/** As many as fit into the result. If there are more, the last one says so. */
export function atMostWarnings(warnings: readonly string[]): string[] {
  if (warnings.length <= WARNINGS_MAX) return [...warnings];
  const listed = warnings.slice(0, WARNINGS_MAX - 1);
  return [...listed, `There are ${warnings.length - listed.length} more findings, which are not listed.`];
}

/** Lines of fstab that are wrong in another machine. */
export function fstabFindings(table: string, uuids: ReadonlySet<string>): string[] {
  return table.split('\n').flatMap((line) => {
    const [device = '', folder = ''] = line.trim().split(/\s+/);
    if (device === '' || device.startsWith('#')) return [];
    const shown = shortened(folder, 100);
    if (/^\/dev\/(sd|hd|vd|xvd|nvme)/.test(device)) {
      return [`${shown} is mounted from ${shortened(device, 100)}, which has another name in this machine.`];
    }
    const uuid = /^UUID="?([0-9A-Fa-f-]+)"?$/.exec(device)?.[1]?.toLowerCase();
    if (uuid === undefined || uuids.has(uuid) || /\bnofail\b/.test(line)) return [];
    return [
      `${shown} is mounted by a UUID that is on none of the disks. The machine may wait for it at its start.`,
    ];
  });
}

/** An initramfs with only the drivers of the former machine. */
export function initramfsFindings(config: string | undefined): string[] {
  if (config === undefined || !/^\s*MODULES\s*=\s*"?dep/m.test(config)) return [];
  return [
    'The start of the system knows only the hardware of its former machine (MODULES=dep). If it does not find its disk, start the original with MODULES=most and back it up again.',
  ];
}

/** A file of an ext file system; `undefined` if it is not there. The journal is not replayed. */
async function readFromExt(
  { file, offset }: Volume & { file: string },
  name: string,
): Promise<string | undefined> {
  // debugfs gives question marks and quotation marks in a name a special meaning.
  const handle = await open(file, 'r');
  try {
    const image = `/proc/${process.pid}/fd/${handle.fd}?offset=${offset}`;
    const text = await readOutput('debugfs', ['-R', `cat ${name}`, image], {
      timeoutMs: READ_MS,
      maxLength: TEXT_MAX,
    });
    return text === '' ? undefined : text;
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}

/**
 * The file systems of a disk image. The kernel of the host may know none of its partitions. UUIDs are in lower case,
 * as in fstab.
 */
export async function volumesOf(file: string): Promise<Volume[]> {
  const handle = await open(file, 'r');
  try {
    const read = readFrom(handle);
    const { size: sizeBytes } = await handle.stat();
    const partitionTable = (await describeTable(read, SECTOR)) ?? null;
    const volumes = await describeVolumes(read, { sizeBytes, partitionTable });
    return volumes.map(({ offset, type, uuid }) => ({ offset, type, uuid: fstabUuid(type, uuid) }));
  } finally {
    await handle.close();
  }
}

function fstabUuid(type: MachineVolume['type'], uuid: string | null): string | undefined {
  const text = uuid?.toLowerCase();
  return type === 'vfat' ? text?.replace(/^(.{4})(.{4})$/, '$1-$2') : text;
}
