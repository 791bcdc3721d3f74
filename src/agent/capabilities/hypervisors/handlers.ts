import { mkdir, rm, readdir } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import {
  type CommandPayload,
  type HypervisorKind,
  MACHINES_MAX,
  type CommandOutput,
  escapeLiteral,
  MACHINE_MANIFEST,
  MachineErrorCode,
  MachineManifest,
  printedPath,
  shortened,
} from '../../../protocol/index.ts';
import { type BackupParts, timedOut, STOP_MS } from '../../repository/local-engine.ts';
import { assertRoom, checkTargetPath, openTarget, type Amount } from '../../repository/target-folder.ts';
import type { DurableHandlers, DurableContext } from '../../work/handler.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import { backUpMachines, clearExports } from './back-up-machines.ts';
import { bytesBelow, type Hypervisor } from './hypervisor.ts';
import { type Hypervisors, chooseMachines } from './hypervisors.ts';
import { text } from 'node:stream/consumers';
import { dump, listEntries, restore } from '../../../engine/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { progressOf, type RepositoryWork, withRepository } from '../../repository/repository-work.ts';

/** An agent without a hypervisor has none of these capabilities. */
export const machineQueries = (hypervisors: Hypervisors): LiveHandlers =>
  hypervisors.isEmpty
    ? {}
    : {
        'backup.vm-list': async ({ hypervisor }, { signal, timeUp }) => {
          const found = await hypervisors.get(hypervisor).list(AbortSignal.any([signal, timeUp]));
          return { machines: found.slice(0, MACHINES_MAX), truncated: found.length > MACHINES_MAX };
        },
      };

/** Cleans up after an earlier agent, and returns the commands for machines. */
export async function openMachines(parts: BackupParts, hypervisors: Hypervisors): Promise<DurableHandlers> {
  if (hypervisors.isEmpty) return {};
  hypervisors.recover();
  await clearExports(parts);
  return {
    'backup.vm-checkpoint': async (payload, { signal }) =>
      change(hypervisors, payload, signal, (hypervisor, ends) => {
        const { machineId, action, checkpointName, checkpointId } = payload;
        return hypervisor.checkpoint(machineId, { action, checkpointName, checkpointId }, ends);
      }),
    'backup.vm-state': async (payload, { signal }) =>
      change(hypervisors, payload, signal, (hypervisor, ends) =>
        hypervisor.setState(payload.machineId, payload.state, ends),
      ),
    'backup.vm-export': async (payload, { signal, progress }) =>
      within(payload.timeoutSeconds, signal, async (ends) => {
        const hypervisor = hypervisors.get(payload.hypervisor);
        const onBytes = (bytes: number) => progress({ phase: 'exporting', done: bytes });
        return exportMachine(parts, hypervisor, { payload, onBytes, signal: ends });
      }),
    'backup.machine': backUpMachines(parts, hypervisors),
    'backup.vm-restore': restoreMachine(parts, hypervisors),
  };
}

interface Change {
  hypervisor: HypervisorKind;
  machineId: string;
  timeoutSeconds: number;
}

/** Changes a machine, and returns its new state. */
async function change(
  hypervisors: Hypervisors,
  { hypervisor: kind, machineId, timeoutSeconds }: Change,
  signal: AbortSignal,
  work: (hypervisor: Hypervisor, signal: AbortSignal) => Promise<void>,
) {
  const hypervisor = hypervisors.get(kind);
  return within(timeoutSeconds, signal, async (ends) => {
    await work(hypervisor, ends);
    // The change was made, even if reading the new state fails.
    const machine = await hypervisor.find(machineId, ends).catch(() => null);
    return { machine };
  });
}

async function within<T>(
  seconds: number,
  signal: AbortSignal,
  work: (ends: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = clock.timeoutSignal(seconds * 1000);
  try {
    return await work(AbortSignal.any([signal, limit]));
  } catch (error) {
    if (limit.aborted && !signal.aborted) throw timedOut(seconds);
    throw error;
  }
}

interface OneExport {
  payload: CommandPayload<'backup.vm-export'>;
  onBytes: (bytes: number) => void;
  signal: AbortSignal;
}

async function exportMachine(
  { dataDir }: BackupParts,
  hypervisor: Hypervisor,
  { payload: { machineId, exportPath, consistency }, onBytes, signal }: OneExport,
) {
  const startedAt = clock.monotonic();
  checkTargetPath(exportPath, dataDir);
  const machine = await hypervisor.find(machineId, signal);
  const target = await openTarget(exportPath);
  await target.close();
  checkTargetPath(target.path, dataDir);
  const bytes = machine.disks.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0);
  await assertRoom(target.path, { files: machine.disks.length, bytes });
  const folder = path.join(
    target.path,
    `${machineId}-${clock.date().toISOString().replaceAll(/[-:.]/g, '')}`,
  );
  await mkdir(folder, { mode: 0o700 });
  try {
    const reached = await hypervisor.exportTo(machineId, { folder, consistency, onBytes }, signal);
    return {
      folder,
      consistency: reached.consistency,
      bytes: await bytesBelow(folder),
      seconds: (clock.monotonic() - startedAt) / 1000,
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    throw error;
  }
}

type Payload = CommandPayload<'backup.vm-restore'>;

const MANIFEST_MAX = 2_000_000;
const ENTRIES_MAX = 100_000;
const STAGING = 'staging';

/**
 * Restores a machine of a snapshot. Its files are fetched into a folder beside its final one, from which the
 * hypervisor imports them: with a new id it copies them, so the disk needs room for both during the import.
 */
const restoreMachine = (parts: BackupParts, hypervisors: Hypervisors) => ({
  stopMs: STOP_MS,
  async run(
    payload: Payload,
    context: DurableContext<'backup.vm-restore'>,
  ): Promise<CommandOutput<'backup.vm-restore'>> {
    const hypervisor = hypervisors.get(payload.hypervisor);
    const startedAt = clock.monotonic();
    const { progress } = context;
    return withRepository(parts, { payload, context }, async (use) => {
      const { signal } = use.options;
      const root = payload.targetPath ?? (await hypervisor.defaultFolder(signal));
      checkTargetPath(root, parts.dataDir);
      progress({ phase: 'listing' });
      const source = await findMachine(use, payload);
      const expected = await measure(use, payload.snapshotId, source);
      const target = await openTarget(root);
      await target.close();
      checkTargetPath(target.path, parts.dataDir);
      const own = await makeFolder(target.path, payload.restoreId);
      try {
        await assertRoom(own, { files: 2 * expected.files, bytes: 2 * expected.bytes });
        const staging = path.join(own, STAGING);
        const made = await restore(
          use.engine,
          use.repository,
          { snapshotId: payload.snapshotId, target: staging, selected: [source], expected },
          { ...use.options, onProgress: (now) => progress(progressOf(now)) },
        );
        if (made.status === 'partial') throw incomplete(made.failed.paths[0]?.path ?? '');
        progress({ phase: 'importing' });
        const files = path.join(staging, ...printedPath(source).split('/'));
        const targetFolder = path.join(own, 'machine');
        await mkdir(targetFolder);
        const wanted = { vmName: payload.vmName, generateNewId: payload.generateNewId, targetFolder };
        const machine = await hypervisor.importFrom(files, wanted, signal);
        await rm(staging, { recursive: true, force: true, maxRetries: 5 }).catch((error: unknown) => {
          parts.warn(`The fetched files in ${staging} could not be removed: ${String(error)}`);
        });
        return {
          status: 'completed',
          targetPath: targetFolder,
          filesRestored: made.files,
          bytesRestored: made.bytes,
          filesSkipped: 0,
          seconds: (clock.monotonic() - startedAt) / 1000,
          failed: { count: 0, paths: [] },
          ...machine,
        };
      } catch (error) {
        await rm(own, { recursive: true, force: true, maxRetries: 5 }).catch((cause: unknown) => {
          parts.warn(`The folder ${own} could not be removed: ${String(cause)}`);
        });
        throw error;
      }
    });
  },
});

/** The folder of the machine in the snapshot. It is untrusted: anyone with the key of the repository can write to it. */
async function findMachine(
  { engine, repository, options }: RepositoryWork,
  { snapshotId, hypervisor, machine }: Payload,
): Promise<string> {
  const manifestPath = await findManifest({ engine, repository, options }, snapshotId);
  const manifest = parseManifest(
    await text(dump(engine, repository, { snapshotId, path: manifestPath }, options)),
  );
  if (manifest.hypervisor !== hypervisor) {
    throw incompatible(`The snapshot has machines of ${manifest.hypervisor}, and not of ${hypervisor}.`);
  }
  const { chosen, refused } = chooseMachines(manifest.machines, machine === undefined ? 'all' : [machine]);
  if (refused[0] !== undefined) throw new AgentError(refused[0].code, refused[0].message);
  const [one] = chosen;
  if (one === undefined || chosen.length > 1) {
    const names = `The snapshot has ${chosen.length} machines. Name one of them.`;
    throw new AgentError(MachineErrorCode.machineAmbiguous, names);
  }
  return path.posix.join(path.posix.dirname(manifestPath), escapeLiteral(one.folder));
}

async function findManifest(
  { engine, repository, options }: RepositoryWork,
  snapshotId: string,
): Promise<string> {
  let seen = 0;
  for await (const entry of listEntries(engine, repository, { snapshotId }, options)) {
    const isManifest = entry.type === 'file' && path.posix.basename(entry.path) === MACHINE_MANIFEST;
    if (isManifest && (entry.size ?? Number.POSITIVE_INFINITY) <= MANIFEST_MAX) return entry.path;
    if ((seen += 1) > ENTRIES_MAX) break;
  }
  throw incompatible('The snapshot has no machines.');
}

function parseManifest(content: string): MachineManifest {
  try {
    return MachineManifest.parse(JSON.parse(content));
  } catch {
    throw incompatible('The list of machines in the snapshot cannot be read.');
  }
}

/** Only files and folders, each once: links could make restic write elsewhere. */
async function measure(
  { engine, repository, options }: RepositoryWork,
  snapshotId: string,
  folder: string,
): Promise<Amount> {
  const seen = new Set<string>();
  const amount = { files: 0, bytes: 0 };
  // restic walks the whole snapshot in any case, and lists a folder without the content of its folders.
  for await (const entry of listEntries(engine, repository, { snapshotId }, options)) {
    const { path: name, type, size = 0 } = entry;
    if (name !== folder && !name.startsWith(`${folder}/`)) continue;
    if (seen.has(name) || (type !== 'file' && type !== 'dir') || seen.size >= ENTRIES_MAX) {
      throw incompatible('The snapshot has more than the files of a machine in its folder.');
    }
    seen.add(name);
    if (type === 'file') {
      amount.files += 1;
      amount.bytes += size;
    }
  }
  if (amount.files === 0) throw incompatible('The snapshot has no files of this machine.');
  return amount;
}

/** A new folder. Files of an earlier run of this restore that was killed are removed. */
async function makeFolder(root: string, restoreId: string): Promise<string> {
  const start = `muster-${restoreId}`;
  const earlier = (await readdir(root)).filter((name) => name.startsWith(start));
  for (const name of earlier) {
    await rm(path.join(root, name, STAGING), { recursive: true, force: true, maxRetries: 5 });
  }
  const own = path.join(root, earlier.length === 0 ? start : `${start}-${earlier.length + 1}`);
  await mkdir(own, { mode: 0o700 });
  return own;
}

const incompatible = (message: string) => new AgentError(MachineErrorCode.incompatible, message);
const incomplete = (file: string) =>
  new AgentError(
    MachineErrorCode.failed,
    `A file of the machine could not be restored: ${shortened(file, 300)}`,
  );
