import { mkdir, readdir, rm, access, mkdtemp, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson, writePrivateJson } from '../files/private-file.ts';
import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { clock } from '../../../clock.ts';

/** The machines that this agent has defined: one file per machine, beside the folder of its disks. */
export class Guests {
  readonly folder: string;
  readonly #warn: (message: string) => void;

  constructor(folder: string, warn: (message: string) => void) {
    this.folder = folder;
    this.#warn = warn;
  }

  /** The default folder of a machine's disks. */
  folderOf(id: string): string {
    return path.join(this.folder, id);
  }

  async list(): Promise<GuestDefinition[]> {
    const names = await readdir(this.folder).catch(() => []);
    const found: GuestDefinition[] = [];
    for (const name of names.filter((each) => each.endsWith('.json')).sort()) {
      const guest = await this.read(name.slice(0, -'.json'.length));
      if (guest !== undefined) found.push(guest);
    }
    return found;
  }

  async read(id: string): Promise<GuestDefinition | undefined> {
    const file = this.#file(id);
    const value = await readPrivateJson(file).catch((error: unknown) => {
      this.#warn(`The machine in ${file} cannot be read: ${String(error)}`);
    });
    if (value === undefined) return undefined;
    const parsed = GuestDefinition.safeParse(value);
    if (parsed.success && parsed.data.id === id) return parsed.data;
    this.#warn(`The machine in ${file} is not one that this agent can have written.`);
    return undefined;
  }

  async write(guest: GuestDefinition): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    await writePrivateJson(this.#file(guest.id), GuestDefinition.parse(guest));
  }

  /** Removes a stopped machine with its disks. The definition is removed last, so that this can be repeated. */
  async remove({ id, folder }: Pick<GuestDefinition, 'id' | 'folder'>): Promise<void> {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    await rm(this.#file(id), { force: true });
  }

  #file(id: string): string {
    return path.join(this.folder, `${path.basename(id)}.json`);
  }
}

/** The stored definition of a machine. */

/** A name in the folder of the machine, so that it cannot lead outside. */
const FileName = z.string().regex(/^[a-z0-9][a-z0-9.-]{0,63}$/, 'must be a plain file name');
const Bytes = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const Port = z.number().int().min(1).max(65_535);

export const GuestDisk = z.strictObject({
  file: FileName,
  format: z.enum(['raw', 'qcow2']),
  sectorBytes: z.union([z.literal(512), z.literal(4096)]),
  /** Set while the file is an overlay: the base file in a snapshot. */
  base: z.strictObject({ file: z.string().startsWith('/'), offset: Bytes, sizeBytes: Bytes }).optional(),
});
export type GuestDisk = z.infer<typeof GuestDisk>;

export const GuestNetwork = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({
    type: z.literal('user'),
    /** The guest has no network access, not even to services of the host, which it otherwise has. */
    isIsolated: z.boolean(),
    /** Reachable from the loopback address of the host. */
    forwards: z.array(z.strictObject({ hostPort: Port, guestPort: Port })).max(16),
  }),
  z.strictObject({
    type: z.literal('bridge'),
    bridge: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/, 'must be the name of a network interface'),
  }),
]);
export type GuestNetwork = z.infer<typeof GuestNetwork>;

export const GuestDefinition = z.strictObject({
  id: z.uuid(),
  /** For people. It is never part of a command line. */
  name: z.string().min(1).max(255),
  /** The folder of its disks. */
  folder: z.string().startsWith('/'),
  memoryMiB: z.number().int().min(64).max(4_194_304),
  processors: z.number().int().min(1).max(255),
  bootMode: z.enum(['bios', 'uefi']),
  bus: z.enum(['virtio', 'sata']),
  macAddress: z.string().regex(/^52:54:00(:[0-9a-f]{2}){3}$/),
  network: GuestNetwork,
  disks: z.array(GuestDisk).min(1).max(16),
  /** For an instant boot: the snapshot below its overlays. */
  snapshotId: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  /** When it was first started. Before that, its overlays are empty. */
  startedAt: z.string().optional(),
});
export type GuestDefinition = z.infer<typeof GuestDefinition>;

/** The command line of a machine. Pure. */

/** The names of files in the folder of a machine. */
export const GUEST_FILES = {
  monitor: 'qmp.sock',
  console: 'console.sock',
  firmwareCode: 'firmware-code.fd',
  firmwareVariables: 'firmware-variables.fd',
  errors: 'qemu.log',
  process: 'qemu.pid',
} as const;

export type Accelerator = 'kvm' | 'tcg';

/** Serial output of the guest: qemu keeps the last part in memory. */
const SERIAL_BYTES = 64 * 1024;
const SERIAL = 'serial0';

export const nodeOf = (index: number) => `disk${index}`;
export const baseOf = (index: number) => `disk${index}-base`;

/**
 * qemu runs in the folder of the machine, so all file names are short and plain: the path of a socket may have at most
 * 107 characters. Options with untrusted values are JSON, in which a comma or a quotation mark has no meaning.
 */
export function guestArguments(guest: GuestDefinition, accelerator: Accelerator): string[] {
  const { id, memoryMiB, processors, bootMode } = guest;
  const isUefi = bootMode === 'uefi';
  return [
    '-nodefaults',
    '-no-user-config',
    '-name',
    `muster-${id}`,
    '-uuid',
    id,
    '-machine',
    `q35${isUefi ? ',pflash0=code,pflash1=variables' : ''}`,
    '-accel',
    accelerator,
    '-cpu',
    accelerator === 'kvm' ? 'host' : 'max',
    '-m',
    String(memoryMiB),
    '-smp',
    String(processors),
    '-display',
    'none',
    '-vga',
    'std',
    '-vnc',
    `unix:${GUEST_FILES.console}`,
    '-chardev',
    `ringbuf,id=${SERIAL},size=${SERIAL_BYTES}`,
    '-serial',
    `chardev:${SERIAL}`,
    '-qmp',
    `unix:${GUEST_FILES.monitor},server=on,wait=off`,
    '-pidfile',
    GUEST_FILES.process,
    '-rtc',
    'base=utc',
    '-device',
    'virtio-rng-pci',
    ...(isUefi ? firmware() : []),
    ...guest.disks.flatMap((disk, index) => diskArguments(disk, index, guest.bus)),
    ...networkArguments(guest),
  ];
}

const firmware = () => [
  ...blockdev({
    driver: 'file',
    'node-name': 'code',
    filename: GUEST_FILES.firmwareCode,
    'read-only': true,
  }),
  ...blockdev({ driver: 'file', 'node-name': 'variables', filename: GUEST_FILES.firmwareVariables }),
];

const blockdev = (node: Record<string, unknown>) => ['-blockdev', JSON.stringify(node)];

function diskArguments(disk: GuestDisk, index: number, bus: GuestDefinition['bus']): string[] {
  const drive = nodeOf(index);
  const device = {
    drive,
    id: `device-${drive}`,
    bootindex: index,
    // A guest whose disk fails or is full is paused and loses nothing: it can resume once that is fixed.
    werror: 'stop',
    rerror: 'stop',
    ...(disk.sectorBytes === 512
      ? {}
      : { logical_block_size: disk.sectorBytes, physical_block_size: disk.sectorBytes }),
  };
  const driver =
    bus === 'virtio' ? { driver: 'virtio-blk-pci' } : { driver: 'ide-hd', bus: `ide.${index % 6}` };
  return [...blockdev(diskNode(disk, index)), '-device', JSON.stringify({ ...driver, ...device })];
}

function diskNode({ file, format, base }: GuestDisk, index: number): Record<string, unknown> {
  const node = {
    driver: format,
    'node-name': nodeOf(index),
    discard: 'unmap',
    file: { driver: 'file', filename: file },
  };
  return base === undefined ? node : { ...node, backing: baseNode(base, index) };
}

/** The bytes of a disk within a file. */
export const baseNode = (
  { file, offset, sizeBytes }: NonNullable<GuestDisk['base']>,
  index: number,
): Record<string, unknown> => ({
  driver: 'raw',
  'node-name': baseOf(index),
  'read-only': true,
  offset,
  size: sizeBytes,
  file: { driver: 'file', 'node-name': `${baseOf(index)}-file`, 'read-only': true, filename: file },
});

/** Guests without virtio drivers get a card that nearly every system supports. */
const CARDS = { virtio: 'virtio-net-pci', sata: 'e1000e' } as const;

function networkArguments({ network, macAddress: mac, bus }: GuestDefinition): string[] {
  if (network.type === 'none') return [];
  const device = ['-device', JSON.stringify({ driver: CARDS[bus], netdev: 'net0', mac })];
  if (network.type === 'bridge') return ['-netdev', `bridge,id=net0,br=${network.bridge}`, ...device];
  const forwards = network.forwards.map(
    ({ hostPort, guestPort }) => `,hostfwd=tcp:127.0.0.1:${hostPort}-:${guestPort}`,
  );
  const isolation = network.isIsolated ? ',restrict=on' : '';
  return ['-netdev', `user,id=net0${isolation}${forwards.join('')}`, ...device];
}

/**
 * Whether this host accelerates machines. The device file is no proof: it can be opened on hosts on which no guest
 * runs, and on virtual machines whose host emulates KVM so slowly that a guest needs minutes for its boot loader. So a
 * machine with two instructions is booted with and without acceleration; it ends qemu with its own exit code.
 */

const PROBE_MS = 10_000;
/**
 * Acceleration may take at most this many times as long as emulation. On hosts on which no guest came up, it took 27
 * times as long.
 */
const TIMES_EMULATED = 5;
/** Emulation needs a tenth of it; the rest is a reserve for a busy host. */
const PROBE_MIN_MS = 1000;
const ENDED_BY_GUEST = 33;

/** `mov al, 0x10; out 0xf4, al; hlt`: the device `isa-debug-exit` turns it into the exit code (0x10 << 1) | 1. */
function bootSector(): Buffer {
  const sector = Buffer.alloc(512);
  Buffer.from([0xb0, 0x10, 0xe6, 0xf4, 0xf4]).copy(sector);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

/**
 * Boots two instructions with and without KVM: on some hosts `/dev/kvm` opens and no guest runs, or KVM is emulated
 * and far slower than qemu itself.
 * @param device  the device file of KVM
 */
export async function probeAccelerator(qemu: string, device = '/dev/kvm'): Promise<Accelerator> {
  const isThere = await access(device).then(
    () => true,
    () => false,
  );
  if (!isThere) return 'tcg';
  const before = clock.monotonic();
  // Some builds of qemu cannot emulate.
  const canEmulate = await boots(qemu, 'tcg', PROBE_MS);
  const emulatedMs = clock.monotonic() - before;
  const withinMs = canEmulate ? Math.max(PROBE_MIN_MS, Math.ceil(TIMES_EMULATED * emulatedMs)) : PROBE_MS;
  return (await boots(qemu, 'kvm', withinMs)) ? 'kvm' : 'tcg';
}

/** Whether a machine really runs with this accelerator. */
async function boots(qemu: string, accelerator: Accelerator, timeoutMs: number): Promise<boolean> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-probe-'));
  try {
    const file = path.join(folder, 'boot.img');
    await writeFile(file, bootSector());
    const disk = { driver: 'raw', 'node-name': 'disk', file: { driver: 'file', filename: file } };
    const args = [
      '-nodefaults',
      '-no-user-config',
      '-display',
      'none',
      '-machine',
      'pc',
      '-m',
      '16',
      '-accel',
      accelerator,
      '-cpu',
      accelerator === 'kvm' ? 'host' : 'max',
      '-blockdev',
      JSON.stringify(disk),
      '-device',
      'ide-hd,drive=disk,bootindex=0',
      '-device',
      'isa-debug-exit,iobase=0xf4,iosize=0x04',
    ];
    return await new Promise((resolve) => {
      execFile(qemu, args, { timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 }, (error) =>
        resolve(error?.code === ENDED_BY_GUEST),
      );
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
