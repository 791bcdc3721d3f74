import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { backup } from '../../../engine/index.ts';
import {
  type CommandOutput,
  type CommandPayload,
  type Machine,
  MACHINE_MANIFEST,
  MachineErrorCode,
  MachineManifest,
  MACHINES_PER_SNAPSHOT,
  type MachinesDetails,
  NAMED_PATHS_MAX,
  shortened,
} from '../../../protocol/index.ts';
import { AgentError, describeError } from '../../core/agent-error.ts';
import { firstCharacters } from '../../core/plain-text.ts';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import { type BackupParts, STOP_MS } from '../../repository/local-engine.ts';
import {
  progressOf,
  destinationRoom,
  jobTag,
  processorsFor,
  resultOf,
  type RepositoryWork,
  withRepository,
} from '../../repository/repository-work.ts';
import { assertRoom } from '../../repository/target-folder.ts';
import type { DurableContext } from '../../work/handler.ts';
import { chooseMachines, type Hypervisors } from './hypervisors.ts';
import { bytesBelow, type Hypervisor } from './hypervisor.ts';

type Payload = CommandPayload<'backup.machine'>;
type Context = DurableContext<'backup.machine'>;
type ManifestEntry = MachineManifest['machines'][number];
type Problem = { path: string; message: string };

const spoolOf = ({ folder }: BackupParts) => path.join(folder, 'machines');

/**
 * Removes exports that an earlier agent has left. Files that the hypervisor is still writing stay until the next time.
 */
export async function clearExports(parts: BackupParts): Promise<void> {
  for (const name of await readdir(spoolOf(parts)).catch(() => [])) {
    await removeExport(path.join(spoolOf(parts), name), parts.warn);
  }
}

async function removeExport(folder: string, warn: (message: string) => void): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 }).catch((error: unknown) => {
    warn(`The export in ${folder} could not be removed. The agent tries again later: ${String(error)}`);
  });
}

/** Exports machines into a private folder, and makes one snapshot of it. */
export const backUpMachines = (parts: BackupParts, hypervisors: Hypervisors) => ({
  stopMs: STOP_MS,
  run: (payload: Payload, context: Context): Promise<CommandOutput<'backup.machine'>> =>
    withRepository(parts, { payload, context }, async (use) => {
      const hypervisor = hypervisors.get(payload.hypervisor);
      const takenAt = clock.date().toISOString();
      await clearExports(parts);
      const spool = await openPrivateFolder(path.join(spoolOf(parts), payload.jobId));
      try {
        const { exported, problems } = await exportAll(hypervisor, { spool, payload, context, use });
        const manifest = { version: 1, hypervisor: hypervisor.kind, machines: exported };
        await writeFile(path.join(spool, MACHINE_MANIFEST), JSON.stringify(MachineManifest.parse(manifest)));
        const made = await snapshot(spool, { payload, context, use });
        const result = resultOf(made, takenAt);
        const unreadable = [...problems, ...result.unreadable.paths];
        return {
          ...result,
          status: unreadable.length === 0 ? result.status : 'partial',
          unreadable: {
            count: problems.length + result.unreadable.count,
            paths: unreadable.slice(0, NAMED_PATHS_MAX),
          },
          ...(await destinationRoom(use.repository)),
          details: detailsOf(hypervisor, exported),
        };
      } finally {
        await removeExport(spool, parts.warn);
      }
    }),
});

interface Work {
  payload: Payload;
  context: Context;
  use: RepositoryWork;
}

/** A machine that cannot be exported does not stop the backup of the others. */
async function exportAll(
  hypervisor: Hypervisor,
  { spool, payload, context, use }: Work & { spool: string },
): Promise<{ exported: ManifestEntry[]; problems: Problem[] }> {
  const { signal } = use.options;
  const { chosen, refused } = chooseMachines(await hypervisor.list(signal), payload.machines);
  const problems = refused.map(({ name, message }): Problem => ({ path: name, message }));
  let failure: unknown =
    refused[0] === undefined ? undefined : new AgentError(refused[0].code, refused[0].message);
  for (const { name } of chosen.splice(MACHINES_PER_SNAPSHOT)) {
    problems.push({ path: name, message: `One snapshot has at most ${MACHINES_PER_SNAPSHOT} machines.` });
  }
  const total = chosen.reduce((sum, machine) => sum + sizeOf(machine), 0);
  await assertRoom(spool, { files: chosen.length, bytes: total });
  const exported: ManifestEntry[] = [];
  let done = 0;
  for (const machine of chosen) {
    const folder = path.join(spool, machine.id);
    const report = (bytes: number) => {
      const sum = done + bytes;
      const percent = total === 0 ? undefined : Math.min(100, Math.floor((100 * sum) / total));
      context.progress({
        phase: 'exporting',
        done: sum,
        total: Math.max(total, sum),
        ...(percent === undefined ? {} : { percent }),
        path: machine.name,
      });
    };
    report(0);
    try {
      const { consistency, note } = await exportOne(hypervisor, { machine, folder, payload, report, signal });
      if (note !== undefined) problems.push({ path: machine.name, message: note });
      const bytes = await bytesBelow(folder);
      exported.push({ ...factsOf(machine), folder: machine.id, consistency, bytes });
      done += bytes;
    } catch (error) {
      signal.throwIfAborted();
      failure ??= error;
      problems.push({ path: machine.name, message: firstCharacters(describeError(error).message, 500) });
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    }
  }
  if (exported.length > 0) return { exported, problems };
  throw failure ?? new AgentError(MachineErrorCode.machineMissing, 'The hypervisor has no machines.');
}

interface OneExport {
  machine: Machine;
  folder: string;
  payload: Payload;
  report: (bytes: number) => void;
  signal: AbortSignal;
}

/** If the guest cannot pause its programs, the machine is saved in a crash-consistent state, which is reported. */
async function exportOne(
  hypervisor: Hypervisor,
  { machine, folder, payload: { consistency }, report, signal }: OneExport,
): Promise<{ consistency: ManifestEntry['consistency']; note?: string }> {
  await mkdir(folder, { mode: 0o700 });
  try {
    return await hypervisor.exportTo(machine.id, { folder, consistency, onBytes: report }, signal);
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== MachineErrorCode.notConsistent) throw error;
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    await mkdir(folder, { mode: 0o700 });
    const reached = await hypervisor.exportTo(
      machine.id,
      { folder, consistency: 'crash', onBytes: report },
      signal,
    );
    const note = `Only a crash-consistent state could be saved: ${error.message}`;
    return { ...reached, note: firstCharacters(note, 500) };
  }
}

async function snapshot(spool: string, { payload, context: { progress }, use }: Work) {
  const { engine, repository, options } = use;
  const made = await backup(
    engine,
    repository,
    { paths: [spool], host: payload.host, tags: [jobTag(payload.jobId)] },
    {
      ...options,
      // The server counts what arrives in its store, and knows the credential.
      isSnapshotKnown: repository.destination.type === 'rest',
      uploadKiBps: payload.uploadKiBps,
      processors: processorsFor(payload.cpuPercent),
      onProgress: (now) => progress(progressOf(now)),
    },
  );
  const { bytesProcessed: bytes, filesProcessed: files } = made;
  progress({
    phase: 'finishing',
    percent: 100,
    done: bytes,
    total: bytes,
    filesDone: files,
    filesTotal: files,
  });
  return made;
}

const sizeOf = ({ disks }: Machine) => disks.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0);

const factsOf = ({ id, name, generation, bootMode, memoryBytes, processors }: Machine) => ({
  id,
  name: shortened(name, 255),
  generation,
  bootMode,
  memoryBytes,
  processors,
});

const detailsOf = ({ kind }: Hypervisor, exported: readonly ManifestEntry[]): MachinesDetails => ({
  kind: 'machines',
  hypervisor: kind,
  machines: exported.map(({ folder: _folder, ...facts }) => facts),
});
