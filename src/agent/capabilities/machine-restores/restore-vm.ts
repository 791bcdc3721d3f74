import { open, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { dump } from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload, VmDiskFormat } from '../../../protocol/index.ts';
import { fitTable, growFileSystem } from '../../os/partitions/fit-disk.ts';
import type { QemuPrograms } from '../../os/qemu/qemu-programs.ts';
import type { GuestDefinition, GuestDisk } from '../../os/qemu/guest-definition.ts';
import { endGuest, startGuest } from '../../os/qemu/guest-process.ts';
import { guestState } from '../../os/qemu/guest-state.ts';
import { convertImage, imageInfo } from '../../os/qemu/image-tool.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { withRepository } from '../../repository/repository-work.ts';
import { writeDisks } from './disk-writer.ts';
import { findingsOf } from './guest-findings.ts';
import { checkDisks, IMAGE_PATH } from './image-place.ts';
import { accessOf } from './instant-boots.ts';
import { machineError } from './machine-error.ts';
import type { MachineParts } from './machine-parts.ts';
import { needQemu, openGuestFolder, planGuest } from './new-guest.ts';

type Payload = CommandPayload<'backup.vm-from-image'>;
type Output = CommandOutput<'backup.vm-from-image'>;
type Context = DurableContext<'backup.vm-from-image'>;

const GIB = 1024 ** 3;

/** Makes a machine of a snapshot, with disks of its own. What is not complete is removed. */
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
        warnings: warnings.slice(0, 50),
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

/** Defines the machine, and starts it where that is wanted. Of disks for another hypervisor none is made. */
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
      // Its disks are complete, so that it can be started when the reason is gone.
      warnings.unshift(error instanceof Error ? error.message.slice(0, 500) : 'The machine does not start.');
    });
  }
  return { state: await guestState(guest), ...accessOf(guest) };
}

/** Hyper-V takes no other sizes. */
const VHDX_BYTES = 1024 ** 2;

/** Of raw disks, while their tables can be read. Returns warnings for people. */
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
