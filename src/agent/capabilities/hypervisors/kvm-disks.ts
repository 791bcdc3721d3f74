import { randomUUID, createHash } from 'node:crypto';
import { readdir, rm, type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { layoutOf, type MachineDescription, writeMachine } from '../../../engine/index.ts';
import { MachineErrorCode, type MachineCheckpoint, shortened } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { firstCharacters, printable } from '../../core/plain-text.ts';
import { describeTable, describeVolumes } from '../../os/partition-tables.ts';
import { readOutput } from '../../os/child-process.ts';
import { openImage } from '../../os/qemu/disk-images.ts';
import type { NbdDisk } from '../../os/qemu/nbd-client.ts';
import { readDisk } from '../../os/read-disk.ts';
import type { WantedCheckpoint } from './hypervisor.ts';
import type { Domain, DomainDisk } from './kvm-domain.ts';

/**
 * During the backup of a running machine, its writes go to overlays, so its disks do not change. The name of an
 * overlay identifies it, also one of an earlier agent, so the overlays can be merged without any record.
 */

/** Folder of overlays for disks that are not files. */
const DEFAULT_FOLDER = '/var/lib/libvirt/images';
const PREFIX = 'muster-backup-';
/** The whole file name: the machine, its disk, and a unique suffix. */
const NAME = /^muster-backup-([0-9a-f-]{36})-([A-Za-z0-9]{1,20})-[0-9a-f]{8}\.qcow2$/;

const SNAPSHOT_MS = 120_000;
const POLL_MS = 250;
const TRIES = 3;

export const isOverlay = (file: string | null): file is string =>
  file !== null && NAME.test(path.basename(file));

/** The disks that a snapshot covers. The others are not written to. */
const written = ({ disks }: Domain) => disks.filter(({ isReadOnly }) => !isReadOnly);

/**
 * Freezes the content of the disks: from here on, writes go to overlays. libvirt freezes and thaws the file systems
 * itself, within one call.
 */
export async function takeOverlays(
  run: Virsh,
  domain: Domain,
  { isQuiet, signal }: { isQuiet: boolean; signal: AbortSignal },
): Promise<void> {
  const mark = randomUUID().slice(0, 8);
  const overlays = new Map(
    written(domain).map(({ target, path: file, isBlockDevice }) => [
      target,
      path.join(
        isBlockDevice ? DEFAULT_FOLDER : path.dirname(file ?? ''),
        `${PREFIX}${domain.id}-${target}-${mark}.qcow2`,
      ),
    ]),
  );
  const specs = domain.targets.flatMap((target) => {
    const overlay = overlays.get(target);
    const rest =
      overlay === undefined
        ? 'snapshot=no'
        : `snapshot=external,driver=qcow2,file=${overlay.replaceAll(',', ',,')}`;
    return ['--diskspec', `${target},${rest}`];
  });
  const quiet = isQuiet ? ['--quiesce'] : [];
  const words = ['--disk-only', '--atomic', '--no-metadata', ...quiet, ...specs];
  await run(['snapshot-create-as', '--domain', domain.id, ...words], { signal, timeoutMs: SNAPSHOT_MS });
}

/**
 * Merges the overlays of a machine into its disks, and removes them. Continues a merge that another agent has begun. A
 * machine that does not run keeps its overlays until it does; its disks are complete only with them.
 */
export async function mergeOverlays(
  run: Virsh,
  read: () => Promise<DomainState>,
  signal: AbortSignal,
): Promise<'merged' | 'later'> {
  const { domain, isActive } = await read();
  const overlays = domain.disks.filter(({ path: file }) => isOverlay(file));
  if (overlays.length > 0 && !isActive) return 'later';
  for (const { target } of overlays) await mergeDisk(run, { id: domain.id, target, read }, signal);
  const after = await read();
  const used = [after.domain, after.definition].flatMap(({ disks }) => disks);
  if (used.some((disk) => [disk.path, ...disk.bases].some(isOverlay))) {
    throw kvmFailed('An overlay of a backup is still part of a disk.');
  }
  await removeMerged(after.domain);
  return 'merged';
}

export interface DomainState {
  /** The definition of the running machine, or of the next start. */
  domain: Domain;
  /** The definition of the next start. */
  definition: Domain;
  isActive: boolean;
}

interface Merging {
  id: string;
  target: string;
  read: () => Promise<DomainState>;
}

/** Each step can be the first one after a crash: begin the merge, wait until it has caught up, switch over. */
async function mergeDisk(run: Virsh, { id, target, read }: Merging, signal: AbortSignal): Promise<void> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    if (!(await hasJob(run, { id, target }, signal))) {
      // Merges only our overlay: the image below the machine's disk may belong to several machines.
      await run(['blockcommit', id, target, '--active', '--shallow'], { signal });
    }
    for (;;) {
      const isOver = await run(['blockjob', id, target, '--pivot'], { signal }).then(
        () => true,
        () => false,
      );
      if (isOver || !(await hasJob(run, { id, target }, signal))) break;
      await clock.sleep(POLL_MS, { signal });
    }
    const disk = (await read()).domain.disks.find((each) => each.target === target);
    if (!isOverlay(disk?.path ?? null)) return;
  }
  throw new AgentError(
    MachineErrorCode.failed,
    `The overlay of the disk ${target} could not be merged. The machine keeps running with it; the next backup tries again.`,
  );
}

/** Throws if another program has begun a job on the disk. */
async function hasJob(
  run: Virsh,
  { id, target }: Omit<Merging, 'read'>,
  signal: AbortSignal,
): Promise<boolean> {
  const job = await run(['blockjob', id, target, '--raw'], { signal });
  if (job.trim() === '') return false;
  if (/type=.*commit/i.test(job)) return true;
  throw new AgentError(
    MachineErrorCode.stateConflict,
    `Another program uses the disk ${target} of the machine.`,
  );
}

/** Our overlay files beside the machine's disks that the machine no longer uses. */
async function removeMerged({ id, disks }: Domain): Promise<void> {
  const folders = new Set([
    DEFAULT_FOLDER,
    ...disks.flatMap(({ path: file, isBlockDevice }) =>
      file === null || isBlockDevice ? [] : [path.dirname(file)],
    ),
  ]);
  for (const folder of folders) {
    for (const name of await readdir(folder).catch(() => [])) {
      if (NAME.exec(name)?.[1] === id) await rm(path.join(folder, name), { force: true });
    }
  }
}

/** Writes the disks of a machine as one archive, in the form of docs/decisions/machine-images.md. */

type Consistency = MachineDescription['consistency'];

interface ImageOrder {
  program: string;
  domain: Domain;
  /** The files to read: either frozen by the snapshot, or not written to. */
  disks: readonly DomainDisk[];
  consistency: Consistency;
  file: string;
  onBytes?: ((bytes: number) => void) | undefined;
}

export async function writeImage(order: ImageOrder, signal: AbortSignal): Promise<void> {
  const { program, domain, disks, consistency, file, onBytes } = order;
  const opened = new Map<string, NbdDisk>();
  try {
    const described: MachineDescription['disks'] = [];
    for (const disk of disks) {
      const { path: source, format } = disk;
      if (source === null || format === null) throw new Error(`the disk ${disk.target} was not checked`);
      const content = await openImage(program, { file: source, format }, signal);
      opened.set(disk.target, content);
      described.push(await describeDisk(disk, content));
    }
    const machine: MachineDescription = {
      format: 'muster-machine',
      version: 1,
      source: 'kvm',
      machine: shortened(domain.name, 255),
      system: domain.system,
      takenAt: clock.date().toISOString(),
      bootMode: domain.bootMode,
      consistency,
      memoryBytes: domain.memoryBytes,
      processors: domain.processors,
      hardware: null,
      fstab: null,
      disks: described,
    };
    const contentOf = ({ name, sizeBytes }: { name: string; sizeBytes: number }) => {
      const content = opened.get(name);
      if (content === undefined) throw new Error(`no disk ${name} was opened`);
      return readDisk({ read: content.read, sizeBytes, empty: [] });
    };
    await writeSparse(file, writeMachine(machine, contentOf), layoutOf(machine).sizeBytes, {
      onBytes,
      signal,
    });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AgentError) throw error;
    throw new AgentError(
      MachineErrorCode.failed,
      `The disks of the machine could not be copied: ${error instanceof Error ? error.message : String(error)}`,
    );
  } finally {
    for (const disk of opened.values()) disk.close();
  }
}

async function describeDisk(
  { target: name, sectorBytes, serial }: DomainDisk,
  { sizeBytes, read }: NbdDisk,
): Promise<MachineDescription['disks'][number]> {
  const partitionTable = (await describeTable(read, sectorBytes)) ?? null;
  const volumes = await describeVolumes(read, { sizeBytes, partitionTable });
  return { name, sizeBytes, sectorBytes, model: null, serial, partitionTable, volumes };
}

/** Zeros become holes, so the copy uses as much space as the disks have content. */
async function writeSparse(
  file: string,
  content: AsyncIterable<Uint8Array>,
  sizeBytes: number,
  { onBytes, signal }: { onBytes?: ((bytes: number) => void) | undefined; signal: AbortSignal },
): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    let at = 0;
    for await (const bytes of content) {
      signal.throwIfAborted();
      if (!isZero(bytes)) await writeAll(handle, bytes, at);
      at += bytes.byteLength;
      onBytes?.(at);
    }
    await handle.truncate(sizeBytes);
  } finally {
    await handle.close();
  }
}

async function writeAll(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let done = 0;
  while (done < bytes.byteLength) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.byteLength - done, position + done);
    done += bytesWritten;
  }
}

const ZEROS = Buffer.alloc(1024 * 1024);

const isZero = (bytes: Uint8Array) =>
  bytes.byteLength <= ZEROS.length && ZEROS.subarray(0, bytes.byteLength).equals(bytes);

/** Runs commands of libvirt. Names are separate arguments, and never a part of a command that virsh would parse. */

const OUTPUT_MAX = 8_000_000;
const LOOK_MS = 60_000;

export type Virsh = (
  words: readonly [command: string, ...rest: string[]],
  limits: { signal: AbortSignal; timeoutMs?: number },
) => Promise<string>;

export const virsh =
  (program: string, uri: string): Virsh =>
  async (words, { signal, timeoutMs = LOOK_MS }) => {
    const limit = clock.timeoutSignal(timeoutMs);
    try {
      const output = await readOutput(program, ['--quiet', '--connect', uri, ...words], {
        signal: AbortSignal.any([signal, limit]),
        timeoutMs,
        maxLength: OUTPUT_MAX,
      });
      // Ignore the output of a program that was stopped.
      signal.throwIfAborted();
      if (limit.aborted) throw new Error(`virsh has not answered within ${timeoutMs / 1000} s.`);
      return output;
    } catch (error) {
      signal.throwIfAborted();
      throw refusalOf(error instanceof Error ? error.message : String(error));
    }
  };

function refusalOf(message: string): AgentError {
  const reason = message.slice(message.indexOf('error: ') + 1).replace(/^rror: /, '');
  if (/failed to get domain|domain not found|no domain with matching/i.test(reason)) {
    return new AgentError(MachineErrorCode.machineMissing, 'This device has no such machine.');
  }
  return kvmFailed(reason);
}

export const kvmFailed = (text: string) =>
  new AgentError(MachineErrorCode.failed, `KVM: ${printable(text, 500)}`);

/**
 * Checkpoints within the disks of a machine. libvirt calls them snapshots, and identifies them by names, which can be
 * any text.
 */

const CHANGE_MS = 3_600_000;

/** Columns are separated by spaces, which names may contain too, so a line is split at its time. */
const LINE = /^ *(.+?) {2,}(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}) {2,}\S+(?: \S+)*(?: {2,}(\S.*?))? *$/;

const idOf = (name: string) => createHash('sha256').update(name).digest('hex').slice(0, 32);

type Named = MachineCheckpoint & { whole: string };

export async function listCheckpoints(run: Virsh, machineId: string, signal: AbortSignal): Promise<Named[]> {
  const lines = (await run(['snapshot-list', '--domain', machineId, '--parent'], { signal })).split('\n');
  return lines.flatMap((line) => {
    const [, name, createdAt, parent] = LINE.exec(line) ?? [];
    if (name === undefined) return [];
    return [
      {
        id: idOf(name),
        name: firstCharacters(name, 256),
        whole: name,
        parentId: parent === undefined ? null : idOf(parent),
        createdAt: createdAt ?? null,
      },
    ];
  });
}

export async function changeCheckpoint(
  run: Virsh,
  domain: Domain,
  { action, checkpointName, checkpointId }: WantedCheckpoint,
  signal: AbortSignal,
): Promise<void> {
  const limits = { signal, timeoutMs: CHANGE_MS };
  if (action === 'create') {
    const raw = domain.disks.find(({ format, isReadOnly }) => format !== 'qcow2' && !isReadOnly);
    if (raw !== undefined) {
      throw new AgentError(
        MachineErrorCode.incompatible,
        `A checkpoint needs disks in the format qcow2, and ${raw.target} is ${raw.format ?? 'another one'}.`,
      );
    }
    const named = checkpointName === undefined ? [] : [`--name=${checkpointName}`];
    await run(['snapshot-create-as', '--domain', domain.id, ...named], limits);
    return;
  }
  const found = (await listCheckpoints(run, domain.id, signal)).find(({ id }) => id === checkpointId);
  if (found === undefined) {
    throw new AgentError(MachineErrorCode.checkpointMissing, 'The machine has no such checkpoint.');
  }
  const command = action === 'delete' ? 'snapshot-delete' : 'snapshot-revert';
  await run([command, '--domain', domain.id, `--snapshotname=${found.whole}`], limits);
}
