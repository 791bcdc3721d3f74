import { mkdir, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { clock } from '../../../clock.ts';
import { dump, listEntries, restore } from '../../../engine/index.ts';
import {
  type CommandOutput,
  type CommandPayload,
  escapeLiteral,
  MACHINE_MANIFEST,
  MachineErrorCode,
  MachineManifest,
  printedPath,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { progressOf } from '../../repository/reports.ts';
import { type RepositoryWork, withRepository } from '../../repository/repository-work.ts';
import { type Amount, assertRoom } from '../../repository/room.ts';
import { checkTargetPath, openTarget } from '../../repository/target-folder.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import { chooseMachines } from './choose-machines.ts';
import type { Hypervisors } from './hypervisors.ts';

type Payload = CommandPayload<'backup.vm-restore'>;

const MANIFEST_MAX = 2_000_000;
const ENTRIES_MAX = 100_000;
const STAGING = 'staging';

/**
 * Restores a machine of a snapshot. Its files are fetched into a folder beside its final one, from where the hypervisor
 * imports them: with another id they have to be copied, so the disk needs their room twice for that time.
 */
export const restoreMachine = (parts: BackupParts, hypervisors: Hypervisors) => ({
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

/** The folder of the machine in the snapshot. Those who hold the key of a repository can write anything there. */
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

/** Only files and folders, each once: with links, restic can be led to write elsewhere. */
async function measure(
  { engine, repository, options }: RepositoryWork,
  snapshotId: string,
  folder: string,
): Promise<Amount> {
  const seen = new Set<string>();
  const amount = { files: 0, bytes: 0 };
  // restic walks the whole snapshot in any case, and lists one folder without those in it.
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

/** A new folder; what an earlier run of this restore has fetched, and was killed with, goes. */
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
    `A file of the machine could not be restored: ${file.slice(0, 300)}`,
  );
