import { execFile } from 'node:child_process';
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import type { Accelerator } from './guest-command.ts';

/**
 * Whether this host accelerates machines. The device file does not say so: it can be opened on hosts on which no guest
 * ever runs, and on virtual machines whose own host imitates what KVM needs, so that a guest does not get past its boot
 * loader in minutes. So a machine of two instructions is booted, which ends qemu with a code of its own, with and
 * without acceleration.
 */

const PROBE_MS = 10_000;
/** Acceleration has to boot it within so many times of what emulation takes. It took 27 where no guest came up. */
const TIMES_EMULATED = 5;
/** Emulation needs a tenth of it; other work of the host may take the rest. */
const PROBE_MIN_MS = 1000;
const ENDED_BY_GUEST = 33;

/** `mov al, 0x10; out 0xf4, al; hlt`: the device `isa-debug-exit` makes (0x10 << 1) | 1 of it. */
function bootSector(): Buffer {
  const sector = Buffer.alloc(512);
  Buffer.from([0xb0, 0x10, 0xe6, 0xf4, 0xf4]).copy(sector);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

/** @param device  the file by which programs use KVM */
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
