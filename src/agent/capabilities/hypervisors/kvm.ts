import { readFile, realpath, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { MACHINE_FILE } from '../../../engine/index.ts';
import {
  Machine,
  type MachineAction,
  MachineErrorCode,
  MACHINES_MAX,
  type MachineState,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { firstCharacters } from '../../core/plain-text.ts';
import { clearImages } from '../../os/qemu/disk-images.ts';
import {
  listedParts,
  type Exported,
  type ExportTarget,
  type Hypervisor,
  type WantedCheckpoint,
  type WantedMachine,
} from './hypervisor.ts';
import {
  changeCheckpoint,
  listCheckpoints,
  type DomainState,
  isOverlay,
  mergeOverlays,
  takeOverlays,
  kvmFailed,
  type Virsh,
  writeImage,
} from './kvm-disks.ts';
import { type Domain, type DomainDisk, parseDomain } from './kvm-domain.ts';
import { importDomain } from './kvm-import.ts';

/** The definition of the machine, beside its archive. */
export const DOMAIN_FILE = 'domain.xml';

const LOOKED_AT_ONCE = 4;
const CHANGE_MS = 600_000;
const STOP_MS = 300_000;
const STOP_POLL_MS = 1000;
/** A merge continues after the backup was cancelled, up to this limit. */
const MERGE_MS = 6 * 3_600_000;

const STATES: Readonly<Record<string, MachineState>> = {
  running: 'running',
  idle: 'running',
  paused: 'paused',
  pmsuspended: 'paused',
  'in shutdown': 'changing',
  'shut off': 'off',
  crashed: 'off',
};

export interface KvmPrograms {
  run: Virsh;
  /** `qemu-nbd` and `qemu-img`. */
  nbd: string;
  image: string;
  warn: (message: string) => void;
}

/** Machines of libvirt on this host. */
export class Kvm implements Hypervisor {
  readonly kind = 'kvm';
  readonly #run: Virsh;
  readonly #programs: KvmPrograms;
  #recovering: Promise<void> = Promise.resolve();

  constructor(programs: KvmPrograms) {
    this.#programs = programs;
    this.#run = programs.run;
  }

  /** Merges the overlays of a killed agent in the background, without delaying the start of this one. */
  recover(): void {
    this.#recovering = this.#recoverAll().catch((error: unknown) => {
      this.#programs.warn(`Overlays of earlier machine backups could not be searched: ${String(error)}`);
    });
  }

  /** Resolves when `recover` has finished. */
  recovered(): Promise<void> {
    return this.#recovering;
  }

  async #recoverAll(): Promise<void> {
    await clearImages();
    const signal = clock.timeoutSignal(MERGE_MS);
    for (const id of await this.#ids(['--all'], signal)) await this.#merge(id);
  }

  async list(signal: AbortSignal): Promise<Machine[]> {
    const ids = (await this.#ids(['--all'], signal)).slice(0, MACHINES_MAX + 1);
    const saved = new Set(await this.#ids(['--all', '--with-managed-save'], signal));
    const machines: Machine[] = [];
    for (let at = 0; at < ids.length; at += LOOKED_AT_ONCE) {
      const some = ids.slice(at, at + LOOKED_AT_ONCE);
      const found = await Promise.all(
        some.map((id) =>
          this.#describe(id, saved.has(id), signal).catch((error: unknown) => {
            signal.throwIfAborted();
            // A machine that is gone or cannot be read does not hide the others.
            this.#programs.warn(`The machine ${id} cannot be described: ${String(error)}`);
            return undefined;
          }),
        ),
      );
      machines.push(...found.filter((machine) => machine !== undefined));
    }
    return machines.sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  async find(machineId: string, signal: AbortSignal): Promise<Machine> {
    const saved = await this.#ids(['--all', '--with-managed-save'], signal);
    return this.#describe(machineId, saved.includes(machineId), signal);
  }

  async checkpoint(machineId: string, wanted: WantedCheckpoint, signal: AbortSignal): Promise<void> {
    const { domain } = await this.#read(machineId, signal);
    if (domain.disks.some(({ path: file }) => isOverlay(file))) {
      throw stateConflict('The machine is being backed up.');
    }
    await changeCheckpoint(this.#run, domain, wanted, signal);
  }

  async setState(machineId: string, action: MachineAction, signal: AbortSignal): Promise<void> {
    const { state } = await this.find(machineId, signal);
    const { from, done, command } = ACTIONS[action];
    if (state === done) return;
    if (!from.includes(state)) throw stateConflict(`The machine is in the state ${state}.`);
    const name = action === 'start' && state === 'paused' ? 'resume' : command;
    await this.#run([name, machineId], { signal, timeoutMs: CHANGE_MS });
    if (action === 'stop') await this.#untilOff(machineId, signal);
    // Overlays of a machine that was off could not be merged before.
    if (action === 'start') await this.#merge(machineId);
  }

  async exportTo(machineId: string, target: ExportTarget, signal: AbortSignal): Promise<Exported> {
    await this.#recovering;
    await this.#merge(machineId);
    const { domain, isActive } = await this.#read(machineId, signal);
    assertReadable(domain);
    const xml = await this.#run(['dumpxml', '--domain', machineId, '--inactive'], { signal });
    await writeFile(path.join(target.folder, DOMAIN_FILE), xml, { mode: 0o600 });
    return isActive
      ? this.#exportActive(domain, target, signal)
      : this.#exportInactive(domain, target, signal);
  }

  importFrom(folder: string, wanted: WantedMachine, signal: AbortSignal) {
    return importDomain(this.#programs, { folder, wanted, definition: DOMAIN_FILE }, signal);
  }

  /** The folder of the pool `default`, as libvirt creates it. */
  async defaultFolder(): Promise<string> {
    return '/var/lib/libvirt/images';
  }

  async #exportActive(
    domain: Domain,
    { consistency: wanted, ...target }: ExportTarget,
    signal: AbortSignal,
  ): Promise<Exported> {
    const isQuiet = wanted === 'application';
    try {
      await takeOverlays(this.#run, domain, { isQuiet, signal }).catch((error: unknown) => {
        if (!isQuiet || !(error instanceof AgentError)) throw error;
        throw new AgentError(MachineErrorCode.notConsistent, error.message);
      });
      const consistency = !isQuiet
        ? 'crash'
        : domain.system?.startsWith('Windows')
          ? 'application'
          : 'filesystem';
      await this.#write(domain, { ...target, consistency }, signal);
      return { consistency };
    } finally {
      // Also after a failure: libvirt may have created them.
      await this.#merge(domain.id);
    }
  }

  /** The disks can be read directly, including overlays that an earlier backup may have left. */
  async #exportInactive(
    domain: Domain,
    { consistency: _wanted, ...target }: ExportTarget,
    signal: AbortSignal,
  ): Promise<Exported> {
    const isSaved = (await this.#ids(['--all', '--with-managed-save'], signal)).includes(domain.id);
    const before = await changesOf(domain.disks);
    const consistency = isSaved ? 'crash' : 'application';
    await this.#write(domain, { ...target, consistency }, signal);
    const isActive = (await this.#read(domain.id, signal)).isActive;
    if (isActive || (await changesOf(domain.disks)) !== before) {
      throw stateConflict('The machine was started while its disks were read.');
    }
    return { consistency };
  }

  async #write(
    domain: Domain,
    { folder, consistency, onBytes }: Pick<ExportTarget, 'folder' | 'onBytes'> & Exported,
    signal: AbortSignal,
  ): Promise<void> {
    const file = path.join(folder, MACHINE_FILE);
    const { nbd: program } = this.#programs;
    await writeImage({ program, domain, disks: domain.disks, consistency, file, onBytes }, signal);
  }

  /**
   * A merge is not cancelled with the backup, because the machine depends on it. A failure is only a warning, and the
   * next backup retries.
   */
  async #merge(machineId: string): Promise<void> {
    const signal = clock.timeoutSignal(MERGE_MS);
    try {
      const reached = await mergeOverlays(this.#run, () => this.#read(machineId, signal), signal);
      if (reached === 'later') {
        this.#programs.warn(`The overlays of the machine ${machineId} are merged when it runs again.`);
      }
    } catch (error) {
      this.#programs.warn(`The overlays of the machine ${machineId} are still there: ${String(error)}`);
    }
  }

  async #ids(words: readonly string[], signal: AbortSignal): Promise<string[]> {
    const lines = (await this.#run(['list', ...words, '--uuid'], { signal })).split('\n');
    return lines.map((line) => line.trim().toLowerCase()).filter((id) => UUID.test(id));
  }

  async #read(machineId: string, signal: AbortSignal): Promise<DomainState> {
    if (!UUID.test(machineId)) {
      throw new AgentError(MachineErrorCode.machineMissing, 'This device has no such machine.');
    }
    const [now, later] = await Promise.all([
      this.#run(['dumpxml', '--domain', machineId], { signal }),
      this.#run(['dumpxml', '--domain', machineId, '--inactive'], { signal }),
    ]);
    const state = (await this.#run(['domstate', '--domain', machineId], { signal })).trim();
    return {
      domain: parseDomain(now),
      definition: parseDomain(later),
      isActive: !['shut off', 'crashed'].includes(state),
    };
  }

  async #describe(machineId: string, isSaved: boolean, signal: AbortSignal): Promise<Machine> {
    const { domain } = await this.#read(machineId, signal);
    const word = (await this.#run(['domstate', '--domain', machineId], { signal })).trim();
    const state = STATES[word] ?? 'unknown';
    const checkpoints = await listCheckpoints(this.#run, machineId, signal);
    const listed = listedParts(domain.disks, checkpoints);
    const disks = await Promise.all(
      listed.disks.map(async (disk) => ({
        path: firstCharacters(disk.path ?? '', 1024),
        sizeBytes: await sizeOf(disk),
        isPassthrough: disk.isPassthrough,
      })),
    );
    const machine = Machine.safeParse({
      ...listed,
      id: domain.id,
      name: firstCharacters(domain.name, 256),
      state: state === 'off' && isSaved ? 'saved' : state,
      bootMode: domain.bootMode,
      generation: null,
      memoryBytes: domain.memoryBytes,
      processors: domain.processors,
      disks,
      tracksChanges: false,
      checkpoints: listed.checkpoints.map(({ whole: _whole, ...checkpoint }) => checkpoint),
    });
    if (!machine.success) throw kvmFailed('libvirt has described no machine.');
    return machine.data;
  }

  async #untilOff(machineId: string, signal: AbortSignal): Promise<void> {
    const until = clock.monotonic() + STOP_MS;
    while (clock.monotonic() < until) {
      const state = (await this.#run(['domstate', '--domain', machineId], { signal })).trim();
      if (STATES[state] === 'off') return;
      await clock.sleep(STOP_POLL_MS, { signal });
    }
    throw stateConflict(`The machine has not shut down within ${STOP_MS / 60_000} minutes.`);
  }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** From which states an action is possible, and in which state it has nothing to do. */
const ACTIONS: Readonly<
  Record<MachineAction, { from: readonly MachineState[]; done: MachineState; command: string }>
> = {
  start: { from: ['off', 'saved', 'paused'], done: 'running', command: 'start' },
  stop: { from: ['running'], done: 'off', command: 'shutdown' },
  force_stop: { from: ['running', 'paused', 'changing'], done: 'off', command: 'destroy' },
  pause: { from: ['running'], done: 'paused', command: 'suspend' },
  resume: { from: ['paused'], done: 'running', command: 'resume' },
  save: { from: ['running', 'paused'], done: 'saved', command: 'managedsave' },
};

const stateConflict = (message: string) => new AgentError(MachineErrorCode.stateConflict, message);

function assertReadable({ disks }: Domain): void {
  if (disks.length === 0) {
    throw new AgentError(MachineErrorCode.incompatible, 'The machine has no disk.');
  }
  for (const { target, isPassthrough, path: file, format } of disks) {
    if (isPassthrough) {
      throw new AgentError(
        MachineErrorCode.passthroughDisk,
        `The machine uses a disk of its host (${target}), of which no image is made.`,
      );
    }
    if (file === null || !path.isAbsolute(file)) {
      throw new AgentError(
        MachineErrorCode.incompatible,
        `The disk ${target} is no file and no block device of this host, so no image of it is made.`,
      );
    }
    if (format === null) {
      throw new AgentError(MachineErrorCode.incompatible, `The disk ${target} is neither raw nor qcow2.`);
    }
  }
}

/** The size on the disk of the host. Null if it is unknown. */
async function sizeOf({ path: file, isBlockDevice }: DomainDisk): Promise<number | null> {
  if (file === null) return null;
  if (!isBlockDevice) {
    const found = await stat(file).catch(() => undefined);
    return found === undefined ? null : found.blocks * 512;
  }
  const device = await realpath(file).catch(() => file);
  const sectors = await readFile(`/sys/class/block/${path.basename(device)}/size`, 'utf8').catch(() => '');
  return /^\d{1,15}\n?$/.test(sectors) ? Number(sectors) * 512 : null;
}

/** Changes with every write to a disk that is a file. */
async function changesOf(disks: readonly DomainDisk[]): Promise<string> {
  const found = await Promise.all(
    disks.map(async ({ path: file }) => {
      const { size, mtimeNs } = await stat(file ?? '', { bigint: true });
      return `${size} ${mtimeNs}`;
    }),
  );
  return found.join(', ');
}
