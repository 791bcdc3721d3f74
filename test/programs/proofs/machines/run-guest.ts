import { spawn, spawnSync } from 'node:child_process';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Context } from 'mocha';

/** Starts a disk in qemu, without KVM, and reads the page that the guest serves. */

const PROGRAMS: readonly (readonly [program: string, packages: string])[] = [
  ['qemu-system-x86_64', 'qemu-system-x86'],
  ['qemu-img', 'qemu-utils'],
  ['debootstrap', 'debootstrap'],
  ['sfdisk', 'fdisk'],
  ['mcopy', 'mtools'],
  ['mkfs.vfat', 'dosfstools'],
  ['grub-mkimage', 'grub-pc-bin grub-efi-amd64-bin'],
  ['debugfs', 'e2fsprogs'],
];

/** Skips visibly where a program is missing, and fails there in CI. */
export function needsMachines(test: Context): void {
  const missing = PROGRAMS.filter(
    ([program]) => spawnSync('sh', ['-c', `PATH=$PATH:/usr/sbin:/sbin command -v ${program}`]).status !== 0,
  );
  const isRoot = process.getuid?.() === 0;
  if (missing.length === 0 && isRoot) return;
  const why = isRoot
    ? `apt-get install ${missing.map(([, packages]) => packages).join(' ')}`
    : 'run it as root';
  if (process.env['CI'] === 'true') throw new Error(`Machines cannot be tested: ${why}`);
  // oxlint-disable-next-line no-console -- a test that does not run has to say so
  console.warn(`      skipped: ${why}`);
  test.skip();
}

export interface GuestRun {
  disk: string;
  format?: 'raw' | 'qcow2';
  firmware: 'bios' | 'uefi';
  memoryMib?: number;
  /** What the guest writes is thrown away. */
  isReadOnly?: boolean;
  /** Further words for qemu. */
  args?: readonly string[];
}

export interface RunningGuest {
  pid: number;
  /** The content at `/`, once the guest serves it. Throws with the end of its console where it does not. */
  page(withinMs?: number): Promise<string>;
  console(): Promise<string>;
  /** As a power cut. */
  stop(): Promise<void>;
}

const OVMF = '/usr/share/OVMF';
const BOOT_MS = 300_000;

export async function startGuest(options: GuestRun): Promise<RunningGuest> {
  const { disk, format = 'raw', firmware, memoryMib = 512, isReadOnly = false, args = [] } = options;
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-guest-run-'));
  const serial = path.join(folder, 'console.txt');
  const port = await freePort();
  const variables = path.join(folder, 'vars.fd');
  if (firmware === 'uefi') await copyFile(`${OVMF}/OVMF_VARS.fd`, variables);
  const pflash = (file: string, more: string) => ['-drive', `if=pflash,format=raw,file=${file}${more}`];
  const child = spawn(
    'qemu-system-x86_64',
    [
      '-accel',
      'tcg',
      '-m',
      String(memoryMib),
      '-display',
      'none',
      '-no-reboot',
      '-serial',
      `file:${serial}`,
      ...(firmware === 'uefi'
        ? [...pflash(`${OVMF}/OVMF_CODE.fd`, ',readonly=on'), ...pflash(variables, '')]
        : []),
      '-drive',
      `if=virtio,format=${format},file=${disk}${isReadOnly ? ',snapshot=on' : ''}`,
      '-netdev',
      `user,id=n,hostfwd=tcp:127.0.0.1:${port}-:80`,
      '-device',
      'virtio-net-pci,netdev=n',
      ...args,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text.slice(0, 4000)));
  const ended = new Promise<void>((resolve) => {
    child.once('error', (error) => {
      errors += error.message;
      resolve();
    });
    child.once('close', () => resolve());
  });
  const readConsole = () => readFile(serial, 'utf8').catch(() => '');
  return {
    pid: child.pid ?? 0,
    console: readConsole,
    async page(withinMs = BOOT_MS) {
      const until = Date.now() + withinMs;
      while (Date.now() < until && child.exitCode === null) {
        try {
          const answer = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(5000) });
          return await answer.text();
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 500));
        }
      }
      throw new Error(`The guest serves no page: ${errors}\n${(await readConsole()).slice(-2000)}`);
    },
    async stop() {
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}
