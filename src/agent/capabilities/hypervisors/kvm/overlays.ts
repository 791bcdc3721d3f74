import { randomUUID } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../../clock.ts';
import { MachineErrorCode } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import type { Domain } from './domain.ts';
import { kvmFailed, type Virsh } from './virsh.ts';

/**
 * While a machine that runs is backed up, what it writes goes into overlays, so that its disks stand still. Each overlay is
 * found by its name, also that of another agent, and merged again. No record of the agent is needed for that.
 */

/** Where the overlay of a disk lies that is no file. */
const DEFAULT_FOLDER = '/var/lib/libvirt/images';
const PREFIX = 'muster-backup-';
/** The whole name: the machine, its disk, and what makes it unique. */
const NAME = /^muster-backup-([0-9a-f-]{36})-([A-Za-z0-9]{1,20})-[0-9a-f]{8}\.qcow2$/;

const SNAPSHOT_MS = 120_000;
const POLL_MS = 250;
const TRIES = 3;

export const isOverlay = (file: string | null): file is string =>
  file !== null && NAME.test(path.basename(file));

/** The disks that a snapshot stops. Nobody writes to the others. */
const written = ({ disks }: Domain) => disks.filter(({ isReadOnly }) => !isReadOnly);

/** From now on the disks of the machine stand still. libvirt freezes and thaws the file systems itself, within one call. */
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
 * Merges the overlays of a machine into its disks, and removes them. Goes on with what another agent has begun. A machine
 * that does not run keeps them until it does: its disks are whole together with them.
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
  /** As it runs, or as it would be started. */
  domain: Domain;
  /** As it will be started the next time. */
  definition: Domain;
  isActive: boolean;
}

interface Merging {
  id: string;
  target: string;
  read: () => Promise<DomainState>;
}

/** In steps of which each can be the first after a crash: begin the merging, wait until it has caught up, change over. */
async function mergeDisk(run: Virsh, { id, target, read }: Merging, signal: AbortSignal): Promise<void> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    if (!(await hasJob(run, { id, target }, signal))) {
      // Only our overlay: what the disk of the machine lies on may belong to several machines.
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
    `The overlay of the disk ${target} could not be merged. The machine goes on with it; the next backup tries again.`,
  );
}

/** Throws for work on the disk that is not of this kind, which somebody else has begun. */
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
    `Another program is at work on the disk ${target} of the machine.`,
  );
}

/** Files of our name beside the disks of the machine, none of which it uses any more. */
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
