import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { type CommandPayload, type HypervisorKind, MACHINES_MAX } from '../../../protocol/index.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { timedOut } from '../../repository/backup-error.ts';
import { assertRoom } from '../../repository/room.ts';
import { checkTargetPath, openTarget } from '../../repository/target-folder.ts';
import type { DurableHandlers } from '../../work/durable-handler.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import { backUpMachines, clearExports } from './back-up-machines.ts';
import { bytesBelow } from './folder-size.ts';
import type { Hypervisor } from './hypervisor.ts';
import type { Hypervisors } from './hypervisors.ts';
import { restoreMachine } from './restore-machine.ts';

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

/** Removes what an earlier agent has left, and returns the commands for machines. */
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

/** Changes a machine, and says how it is afterwards. */
async function change(
  hypervisors: Hypervisors,
  { hypervisor: kind, machineId, timeoutSeconds }: Change,
  signal: AbortSignal,
  work: (hypervisor: Hypervisor, signal: AbortSignal) => Promise<void>,
) {
  const hypervisor = hypervisors.get(kind);
  return within(timeoutSeconds, signal, async (ends) => {
    await work(hypervisor, ends);
    // The change was made, whatever this says.
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
