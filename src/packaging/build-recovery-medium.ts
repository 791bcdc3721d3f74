import { execFileSync, spawnSync } from 'node:child_process';
import { chmod, copyFile, cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { GRUB, INIT, LEASE, MOTD } from './init.ts';

/** A bootable image for CDs and USB sticks, of packages of Debian and the executable of the agent. */

const PACKAGES = [
  'linux-image-amd64',
  'busybox',
  'kmod',
  'iproute2',
  'e2fsprogs',
  'fdisk',
  'ca-certificates',
  'restic',
];
const RELEASE = 'bookworm';
const PROGRAMS: Readonly<Record<string, string>> = {
  debootstrap: 'debootstrap',
  cpio: 'cpio',
  zstd: 'zstd',
  'grub-mkrescue': 'grub-common grub-pc-bin grub-efi-amd64-bin',
  xorriso: 'xorriso',
  mformat: 'mtools',
};
/** Nobody reads them on a medium for recoveries. */
const LEFT_OUT = [
  'usr/share/doc',
  'usr/share/man',
  'usr/share/locale',
  'usr/share/info',
  'usr/share/zoneinfo',
  'usr/lib/python3',
  'var/cache',
  'var/lib/apt',
  'var/log',
  'boot',
];
/** Drivers of sound, pictures and the like, and of what no disk and no network card needs. */
const DRIVERS_LEFT_OUT = ['gpu', 'media', 'staging', 'iio', 'hwmon', 'leds', 'video', 'infiniband', 'isdn'];

export interface RecoveryRequest {
  /** The executable of the agent for Linux on x64. */
  agent: string;
  out: string;
  /** A root that debootstrap has made before; it is copied. */
  root?: string | undefined;
  report: (line: string) => void;
}

export async function buildRecovery({ agent, out, root, report }: RecoveryRequest): Promise<string> {
  assertPrograms();
  if (!(await stat(agent).catch(() => undefined))?.isFile()) {
    throw new Error(`There is no executable ${agent}. Run "npm run build:agent" first.`);
  }
  const work = await mkdtemp(path.join(tmpdir(), 'muster-recovery-'));
  try {
    const system = path.join(work, 'root');
    if (root === undefined) {
      report(`Installing Debian ${RELEASE}, which takes some minutes …`);
      run('debootstrap', ['--variant=minbase', `--include=${PACKAGES.join(',')}`, RELEASE, system]);
    } else {
      run('cp', ['-a', root, system]);
    }
    const medium = path.join(work, 'medium');
    await mkdir(path.join(medium, 'boot', 'grub'), { recursive: true });
    await copyFile(await kernelIn(system), path.join(medium, 'boot', 'vmlinuz'));
    await writeFile(path.join(medium, 'boot', 'grub', 'grub.cfg'), GRUB);
    await prepare(system, agent);
    report('Packing …');
    const initrd = path.join(medium, 'boot', 'initrd.zst');
    run('sh', [
      '-euc',
      'cd "$1" && find . -xdev | cpio --quiet -o -H newc | zstd -q -T0 -12 -o "$2"',
      'sh',
      system,
      initrd,
    ]);
    await mkdir(out, { recursive: true });
    const image = path.join(out, 'muster-recovery-x64.iso');
    run('grub-mkrescue', ['-o', image, medium, '--', '-volid', 'MUSTER_RECOVERY']);
    const { size } = await stat(image);
    report(`${image}: ${Math.round(size / 1024 ** 2)} MiB, for BIOS and UEFI (without Secure Boot)`);
    return image;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

function assertPrograms(): void {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    throw new Error('The recovery medium is built by root on Linux.');
  }
  const missing = Object.entries(PROGRAMS).filter(
    ([program]) =>
      spawnSync('sh', ['-c', 'PATH="$PATH:/usr/sbin:/sbin" command -v "$1"', 'sh', program]).status !== 0,
  );
  if (missing.length === 0) return;
  throw new Error(`apt-get install ${missing.map(([, packages]) => packages).join(' ')}`);
}

/** The programs of administrators are not on every path. */
function run(program: string, args: readonly string[]): void {
  const words = ['-c', 'PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C exec "$@"', 'sh', program, ...args];
  execFileSync('sh', words, { stdio: ['ignore', 'ignore', 'pipe'], maxBuffer: 64 * 1024 ** 2 });
}

async function kernelIn(system: string): Promise<string> {
  const boot = path.join(system, 'boot');
  const kernel = (await readdir(boot))
    .filter((name) => name.startsWith('vmlinuz-'))
    .sort()
    .at(-1);
  if (kernel === undefined) throw new Error('Debian has installed no kernel.');
  return path.join(boot, kernel);
}

async function prepare(system: string, agent: string): Promise<void> {
  const at = (...names: string[]) => path.join(system, ...names);
  for (const name of LEFT_OUT) await rm(at(name), { recursive: true, force: true });
  for (const kernel of await readdir(at('lib/modules'))) {
    for (const name of DRIVERS_LEFT_OUT) {
      await rm(at('lib/modules', kernel, 'kernel/drivers', name), { recursive: true, force: true });
    }
    await rm(at('lib/modules', kernel, 'kernel/sound'), { recursive: true, force: true });
    run('chroot', [system, 'depmod', kernel]);
  }
  for (const folder of ['proc', 'sys', 'dev', 'run', 'tmp', 'mnt', 'var/log', 'usr/local/sbin']) {
    await mkdir(at(folder), { recursive: true });
  }
  await cp(agent, at('usr/local/bin/muster-agent'));
  await chmod(at('usr/local/bin/muster-agent'), 0o755);
  await writeFile(at('usr/local/sbin/lease'), LEASE, { mode: 0o755 });
  await writeFile(at('etc/motd'), MOTD);
  await rm(at('init'), { force: true });
  await writeFile(at('init'), INIT, { mode: 0o755 });
  await rm(at('etc/hostname'), { force: true });
  await writeFile(at('etc/resolv.conf'), '');
}
