import path from 'node:path';
import { clock } from '../../../clock.ts';
import type { MachineDescription } from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload } from '../../../protocol/index.ts';
import { readDisk } from '../../os/read-disk.ts';
import { describeTable, describeVolumes } from '../../os/partition-tables.ts';
import { findProgram } from '../../os/child-process.ts';
import { type GuestDefinition, Guests } from '../../os/qemu/guest-definition.ts';
import { endGuest, findGuest } from '../../os/qemu/guest-process.ts';
import { openImage } from '../../os/qemu/disk-images.ts';
import type { NbdDisk } from '../../os/qemu/nbd-client.ts';
import { STOP_MS, type BackupParts } from '../../repository/local-engine.ts';
import { type RepositoryWork, withRepository } from '../../repository/repository-work.ts';
import { storeMachine } from '../../repository/store-machine.ts';
import type { DurableContext, DurableHandlers } from '../../work/handler.ts';
import { InstantBoots } from './instant-boots.ts';
import {
  cancelled,
  hypervisorMissing,
  machineError,
  machineMissing,
  asMachineError,
} from './machine-error.ts';
import { type MachineParts, Accelerators } from './new-guest.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import { migrate } from './migrate.ts';
import { restoreVm } from './restore-vm.ts';
import { SnapshotMounts } from './snapshot-mounts.ts';

type Payload = CommandPayload<'backup.vm-save'>;
type Context = DurableContext<'backup.vm-save'>;
type Output = CommandOutput<'backup.vm-save'>;

const MIB = 1024 ** 2;

/** Backs up a machine that was made from a snapshot. It is shut down first and stays off: later writes would be lost. */
const saveMachine = (parts: MachineParts, boots: InstantBoots) => ({
  stopMs: STOP_MS,
  run: (payload: Payload, context: Context): Promise<Output> =>
    withRepository(parts, { payload, context }, (use) =>
      boots.longTurn(payload.restoreId, use.options.signal, async (signal) => {
        const guest = await parts.guests.read(payload.restoreId);
        if (guest === undefined) throw machineMissing();
        context.progress({ phase: 'preparing' });
        const consistency = await shutDown(guest, signal);
        const still = await boots.withoutFinishedBases(guest);
        await assertReadable(parts, still);
        const stoppable = { ...use, options: { ...use.options, signal } };
        try {
          return await store(still, { payload, context, consistency, use: stoppable });
        } catch (error) {
          // The machine was discarded.
          throw signal.aborted && !use.options.signal.aborted ? cancelled() : error;
        }
      }),
    ),
});

/** Consistency of its file systems: a guest that ignores its power button ends as in a power cut. */
async function shutDown(
  guest: GuestDefinition,
  signal: AbortSignal,
): Promise<MachineDescription['consistency']> {
  if ((await findGuest(guest)) === undefined) return 'crash';
  if (await endGuest(guest, 'shutdown', signal)) return 'filesystem';
  if (signal.aborted) throw cancelled();
  if (await endGuest(guest, 'quit')) return 'crash';
  throw machineError('HYPERVISOR_FAILED', 'The process of the machine could not be ended.');
}

async function assertReadable({ mounts }: MachineParts, { snapshotId }: GuestDefinition): Promise<void> {
  if (snapshotId === undefined || (await mounts.isHealthy(snapshotId))) return;
  throw machineError(
    'SNAPSHOT_UNREADABLE',
    'The machine has lost the snapshot that its disks lie on. Start it again first.',
  );
}

interface Work {
  payload: Payload;
  context: Context;
  consistency: MachineDescription['consistency'];
  use: RepositoryWork;
}

async function store(guest: GuestDefinition, { payload, context, consistency, use }: Work): Promise<Output> {
  const program = await findProgram(['qemu-nbd']);
  if (program === undefined) throw hypervisorMissing();
  const { signal } = use.options;
  const opened = new Map<string, NbdDisk>();
  try {
    const disks: MachineDescription['disks'] = [];
    for (const { file, format, sectorBytes } of guest.disks) {
      const content = await openImage(program, { file: path.join(guest.folder, file), format }, signal);
      const name = path.parse(file).name;
      opened.set(name, content);
      const { sizeBytes, read } = content;
      const partitionTable = (await describeTable(read, sectorBytes)) ?? null;
      const volumes = await describeVolumes(read, { sizeBytes, partitionTable });
      disks.push({ name, sizeBytes, sectorBytes, model: null, serial: null, partitionTable, volumes });
    }
    const machine: MachineDescription = {
      format: 'muster-machine',
      version: 1,
      source: 'kvm',
      machine: guest.name,
      system: null,
      takenAt: clock.date().toISOString(),
      bootMode: guest.bootMode,
      consistency,
      memoryBytes: guest.memoryMiB * MIB,
      processors: guest.processors,
      hardware: null,
      fstab: null,
      disks,
    };
    const contentOf = ({ name, sizeBytes }: { name: string; sizeBytes: number }) => {
      const content = opened.get(name);
      if (content === undefined) throw new Error(`no disk ${name} was opened`);
      return readDisk({ read: content.read, sizeBytes, empty: [] });
    };
    const confirm = async () => {
      if ((await findGuest(guest)) === undefined) return;
      throw machineError('HYPERVISOR_FAILED', 'The machine was started while it was backed up.');
    };
    return await storeMachine(use, payload, { machine, contentOf, confirm, onProgress: context.progress });
  } finally {
    for (const disk of opened.values()) disk.close();
  }
}

interface MachineRestores {
  durable: DurableHandlers;
  live: LiveHandlers;
  close: () => void;
}

/** Cleans up after an earlier agent, and returns the commands that make machines of snapshots: on Linux only. */
export async function openMachineRestores(backup: BackupParts): Promise<MachineRestores> {
  if (process.platform !== 'linux') return { durable: {}, live: {}, close: () => {} };
  const parts: MachineParts = {
    ...backup,
    guests: new Guests(path.join(backup.dataDir, 'machines'), backup.warn),
    mounts: new SnapshotMounts({ ...backup, folder: path.join(backup.folder, 'mounts') }),
    accelerators: new Accelerators(),
  };
  const boots = new InstantBoots(parts);
  await boots.recover().catch((error: unknown) => {
    backup.warn(`Leftovers of instant boots could not be cleaned up: ${String(error)}`);
  });
  const migration = migrate(parts, boots);
  const restore = restoreVm(parts);
  const save = saveMachine(parts, boots);
  return {
    durable: {
      'backup.vm-from-image': {
        ...restore,
        run: (payload, context) => withCode(restore.run(payload, context)),
      },
      'backup.vm-instant-boot': (payload, context) => withCode(boots.boot(payload, context)),
      'backup.vm-migrate': (payload, context) => withCode(migration.run(payload, context)),
      'backup.vm-save': {
        ...save,
        run: (payload, context) => withCode(save.run(payload, context)),
      },
      'backup.vm-discard': ({ restoreId }) =>
        withCode(boots.discard(restoreId).then((wasThere) => ({ wasThere }))),
    },
    live: { 'backup.vm-boots': () => boots.list() },
    close: () => boots.close(),
  };
}

async function withCode<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asMachineError(error);
  }
}
