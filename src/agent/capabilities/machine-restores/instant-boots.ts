import path from 'node:path';
import { z } from 'zod';
import { clock, type Timer } from '../../../clock.ts';
import { type CommandOutput, type CommandPayload, VM_BOOTS_MAX } from '../../../protocol/index.ts';
import { sizeOnMount } from '../../os/files/mounts.ts';
import {
  GUEST_FILES,
  baseNode,
  baseOf,
  type GuestDefinition,
  type GuestDisk,
} from '../../os/qemu/guest-definition.ts';
import {
  endGuest,
  findGuest,
  startGuest,
  withMonitor,
  guestState,
  stateOf,
} from '../../os/qemu/guest-process.ts';
import { createOverlay, imageInfo } from '../../os/qemu/disk-images.ts';
import { type QmpClient, QmpRefusal } from '../../os/qemu/qmp-client.ts';
import { openRepository } from '../../repository/repository-work.ts';
import type { DurableContext } from '../../work/handler.ts';
import { checkDisks, checkHeaders, IMAGE_PATH } from './disk-writer.ts';
import { machineError } from './machine-error.ts';
import { type MachineParts, needQemu, openGuestFolder, planGuest } from './new-guest.ts';
import { KeyedMutex } from './snapshot-mounts.ts';

const GENERATIONS_MAX = 100;

/**
 * Reopens the base of a running machine after its mount has died and was made again: open files of a dead mount never
 * recover. Then the machine resumes from its disk error.
 */
async function reopenBases(guest: GuestDefinition): Promise<void> {
  await withMonitor(guest, async (monitor) => {
    for (const [index, { base }] of guest.disks.entries()) {
      if (base === undefined) continue;
      const { file, ...node } = baseNode(base, index);
      const opened = z.record(z.string(), z.unknown()).parse(file);
      const name = await addFresh(monitor, opened, (generation) => `${baseOf(index)}-${generation}`);
      await monitor.execute('blockdev-reopen', { options: [{ ...node, file: name }] });
    }
    if ((await stateOf(monitor)) !== 'running') await monitor.execute('cont');
  });
}

/**
 * Opens the file under a free node name. Names are tried in turn, because listing the nodes crashes qemu 7.2 while a
 * disk is being copied.
 */
async function addFresh(
  monitor: QmpClient,
  opened: Record<string, unknown>,
  nameOf: (generation: number) => string,
): Promise<string> {
  for (let generation = 1; ; generation += 1) {
    const name = nameOf(generation);
    try {
      await monitor.execute('blockdev-add', { ...opened, 'node-name': name });
      return name;
    } catch (error) {
      if (!(error instanceof QmpRefusal) || generation >= GENERATIONS_MAX) throw error;
    }
  }
}

type Payload = CommandPayload<'backup.vm-instant-boot'>;
type Output = CommandOutput<'backup.vm-instant-boot'>;
type Context = Pick<DurableContext<'backup.vm-instant-boot'>, 'signal' | 'secret' | 'progress'>;

const WATCH_MS = 5000;

/**
 * Machines that run straight from a snapshot: they read from its mount and write to overlays. An overlay is removed
 * only when the machine is discarded.
 */
export class InstantBoots {
  readonly #parts: MachineParts;
  readonly #mutex = new KeyedMutex();
  readonly #closed = new AbortController();
  readonly #long = new Map<string, AbortController>();
  #watch: Timer | undefined;
  #isMending = false;

  constructor(parts: MachineParts) {
    this.#parts = parts;
  }

  /** Removes machines that never ran and mounts that no machine needs, left by an earlier agent. */
  async recover(): Promise<void> {
    for (const guest of await this.#parts.guests.list()) {
      if (guest.snapshotId === undefined) continue;
      if (guest.startedAt === undefined && (await findGuest(guest)) === undefined) {
        await this.#parts.guests.remove(guest);
      }
    }
    await this.#parts.mounts.keepOnly(await this.#needed());
    this.#watch = clock.setInterval(() => void this.#mend().catch(() => {}), WATCH_MS);
    this.#watch.unref();
  }

  close(): void {
    clock.clear(this.#watch);
    this.#closed.abort();
  }

  /** Serializes the work on one machine. */
  turn<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.#mutex.run(id, work);
  }

  /** For long work: the signal is also aborted if the machine is discarded. */
  longTurn<T>(id: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.turn(id, async () => {
      const discarded = new AbortController();
      this.#long.set(id, discarded);
      try {
        return await work(AbortSignal.any([signal, discarded.signal]));
      } finally {
        this.#long.delete(id);
      }
    });
  }

  /** Starts a machine, or the one that an earlier run of this command has started, which keeps its writes. */
  boot(payload: Payload, context: Context): Promise<Output> {
    return this.turn(payload.restoreId, async () => {
      const known = await this.#parts.guests.read(payload.restoreId);
      return known === undefined ? this.#bootNew(payload, context) : this.#bootAgain(known, payload, context);
    });
  }

  async list(): Promise<CommandOutput<'backup.vm-boots'>> {
    const guests = await this.#parts.guests.list();
    const boots = await Promise.all(
      guests.slice(0, VM_BOOTS_MAX).map(async (guest) => ({
        restoreId: guest.id,
        state: await guestState(guest),
        isPermanent: guest.snapshotId === undefined,
        isBaseThere: guest.snapshotId === undefined || (await this.#parts.mounts.isHealthy(guest.snapshotId)),
      })),
    );
    return { boots, ...(guests.length > VM_BOOTS_MAX ? { isCut: true } : {}) };
  }

  discard(id: string): Promise<boolean> {
    this.#long.get(id)?.abort();
    return this.turn(id, async () => {
      const guest = await this.#parts.guests.read(id);
      if (guest === undefined) return false;
      if (!(await endGuest(guest, 'kill'))) {
        throw machineError('HYPERVISOR_FAILED', 'The process of the machine could not be ended.');
      }
      await this.#parts.guests.remove(guest);
      await this.releaseUnused(guest.snapshotId);
      return true;
    });
  }

  /** Ends the mount of a snapshot that no machine uses any more. */
  async releaseUnused(snapshotId: string | undefined): Promise<void> {
    if (snapshotId === undefined || (await this.#needed()).has(snapshotId)) return;
    await this.#parts.mounts.release(snapshotId);
  }

  /** The state of a stopped machine, read from its disks: the copy may have ended while the agent was down. */
  async withoutFinishedBases(guest: GuestDefinition): Promise<GuestDefinition> {
    const { image } = await needQemu();
    const disks: GuestDisk[] = [];
    for (const { base, ...disk } of guest.disks) {
      const info =
        base === undefined ? undefined : await imageInfo(image, path.join(guest.folder, disk.file));
      disks.push(base === undefined || info?.hasBase === false ? disk : { ...disk, base });
    }
    return withDisks(guest, disks);
  }

  async #bootNew(payload: Payload, context: Context): Promise<Output> {
    const { guests, mounts } = this.#parts;
    const { snapshotId, image, imagePath = IMAGE_PATH } = payload;
    const qemu = await needQemu();
    const times = stopwatch();
    const folder = await openGuestFolder(payload, this.#parts);
    const planned = await planGuest(payload, folder);
    const file = mounts.fileOf(snapshotId, imagePath);
    const disks: GuestDisk[] = image.disks.map(({ offset, sizeBytes, sectorBytes }, index) => ({
      file: `disk${index}.qcow2`,
      format: 'qcow2',
      sectorBytes: sectorBytes === 4096 ? 4096 : 512,
      base: { file, offset, sizeBytes },
    }));
    // The definition is written first: it keeps the mount from being removed with another machine.
    const guest: GuestDefinition = { ...planned, disks, snapshotId };
    try {
      checkDisks(image, Number.MAX_SAFE_INTEGER);
      await guests.write(guest);
      context.progress({ phase: 'mounting' });
      await this.#mount(payload, context);
      checkDisks(image, (await sizeOnMount(file)) ?? 0);
      await checkHeaders(image, file);
      const mount = times();
      for (const { file: name, base } of disks) {
        if (base !== undefined) await createOverlay(qemu.image, path.join(folder, name), base);
      }
      const overlay = times();
      context.progress({ phase: 'starting' });
      context.signal.throwIfAborted();
      return await this.#start(guest, { mount, overlay, since: times });
    } catch (error) {
      // Nothing has run, so nothing is lost.
      await endGuest(guest, 'kill');
      await guests.remove(guest);
      await this.releaseUnused(snapshotId);
      throw error;
    }
  }

  async #bootAgain(known: GuestDefinition, payload: Payload, context: Context): Promise<Output> {
    const times = stopwatch();
    const isRunning = (await findGuest(known)) !== undefined;
    const guest = isRunning ? known : await this.withoutFinishedBases(known);
    const isNew = guest.snapshotId !== undefined && (await this.#mount(payload, context));
    const mount = times();
    if (!isRunning) return this.#start(guest, { mount, overlay: 0, since: times });
    if (isNew) await reopenBases(guest);
    else await withMonitor(guest, (monitor) => monitor.execute('cont'));
    return this.#answer(guest, { mount, overlay: 0, start: times() });
  }

  async #start(
    guest: GuestDefinition,
    { mount, overlay, since }: { mount: number; overlay: number; since: () => number },
  ): Promise<Output> {
    const qemu = await needQemu();
    const accelerator = await this.#parts.accelerators.of(qemu.system);
    // From now on the overlays may contain data.
    const started = { ...guest, startedAt: guest.startedAt ?? clock.date().toISOString() };
    await this.#parts.guests.write(started);
    await startGuest(started, { qemu, accelerator });
    return this.#answer(started, { mount, overlay, start: since() });
  }

  async #answer(guest: GuestDefinition, seconds: Output['seconds']): Promise<Output> {
    const qemu = await needQemu();
    return {
      state: await guestState(guest),
      folder: guest.folder,
      ...accessOf(guest),
      accelerator: await this.#parts.accelerators.of(qemu.system),
      warnings: [],
      seconds,
    };
  }

  /** Returns whether it had to be mounted. */
  #mount({ snapshotId, repository }: Payload, { signal, secret }: Context): Promise<boolean> {
    const open = () => openRepository(this.#parts, repository, secret);
    return this.#parts.mounts.mount(snapshotId, open, signal);
  }

  async #needed(): Promise<Set<string>> {
    return new Set((await this.#parts.guests.list()).flatMap(({ snapshotId }) => snapshotId ?? []));
  }

  /** Restores mounts that have died, and resumes the machines on them. */
  async #mend(): Promise<void> {
    if (this.#isMending) return;
    this.#isMending = true;
    try {
      await this.#parts.mounts.shortenLogs();
      await this.#mendMounts();
    } finally {
      this.#isMending = false;
    }
  }

  async #mendMounts(): Promise<void> {
    const { guests, mounts, warn } = this.#parts;
    for (const guest of await guests.list()) {
      const { snapshotId } = guest;
      if (snapshotId === undefined || (await mounts.isHealthy(snapshotId))) continue;
      const onIt = (await guests.list()).filter((each) => each.snapshotId === snapshotId);
      if (!(await mounts.repair(snapshotId, this.#closed.signal))) continue;
      warn(`The mount of the snapshot ${snapshotId} has died and was made again.`);
      for (const each of onIt) {
        await this.turn(each.id, async () => {
          if ((await findGuest(each)) !== undefined) await reopenBases(each);
        }).catch((error: unknown) => warn(`The machine ${each.id} has lost its disk: ${String(error)}`));
      }
    }
  }
}

/** The definition with other disks; if none is based on a snapshot any more, the machine is independent. */
export function withDisks({ snapshotId, ...guest }: GuestDefinition, disks: GuestDisk[]): GuestDefinition {
  const needsBase = disks.some(({ base }) => base !== undefined);
  return needsBase && snapshotId !== undefined ? { ...guest, disks, snapshotId } : { ...guest, disks };
}

export const accessOf = ({ folder, network }: GuestDefinition) => ({
  console: path.join(folder, GUEST_FILES.console),
  forwards: network.type === 'user' ? network.forwards : [],
});

/** Seconds since the last query. */
function stopwatch(): () => number {
  let last = clock.monotonic();
  return () => {
    const now = clock.monotonic();
    const seconds = (now - last) / 1000;
    last = now;
    return seconds;
  };
}
