import { execFileSync, spawnSync } from 'node:child_process';
import { chmod, copyFile, cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** The init script of the recovery medium. Everything runs in memory: the disks are not used. */

/**
 * Loads a driver for each device that the kernel has found, and requests an address for every connected network card.
 */
const INIT = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=linux
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts && mount -t devpts pts /dev/pts
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs run /run
for round in 1 2; do
  find /sys/devices -name modalias -exec cat {} + 2>/dev/null | sort -u | xargs -r modprobe -abq 2>/dev/null
  sleep 1
done
modprobe -abq sd_mod sr_mod usb_storage uas virtio_blk virtio_net nvme ahci ext4 vfat 2>/dev/null
ip link set lo up
for card in /sys/class/net/*; do
  name=$(basename "$card")
  [ "$name" = lo ] && continue
  ip link set "$name" up
  busybox udhcpc -i "$name" -b -q -t 5 -T 2 -s /usr/local/sbin/lease > /dev/null 2>&1
done
cat /etc/motd
while :; do setsid -c sh -l < /dev/console > /dev/console 2>&1; done
`;

/** The script that busybox's DHCP client runs with an address. */
const LEASE = `#!/bin/sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip address replace "$ip/\${mask:-24}" dev "$interface"
[ -n "$router" ] && ip route replace default via "\${router%% *}" dev "$interface"
: > /etc/resolv.conf
for server in $dns; do echo "nameserver $server" >> /etc/resolv.conf; done
`;

const MOTD = `
Muster recovery medium. Nothing on the disks of this machine was changed.

  lsblk                      the disks
  ip address                 the network (static: ip address add ADDRESS/24 dev CARD; ip route add default via ROUTER)
  muster-agent recover --server https://SERVER --token - --target /dev/DISK

The token is asked for. To go on after a restart, mount a USB disk and add --state FOLDER.

`;

/** Shown on the screen and on the first serial port. */
const GRUB = `set timeout=5
insmod all_video
serial --unit=0 --speed=115200
terminal_input console serial
terminal_output console serial
menuentry "Muster recovery" {
  linux /boot/vmlinuz console=ttyS0,115200 console=tty0 quiet
  initrd /boot/initrd.zst
}
menuentry "Muster recovery (serial console)" {
  linux /boot/vmlinuz console=tty0 console=ttyS0,115200 quiet
  initrd /boot/initrd.zst
}
`;

/** Builds a bootable image for CDs and USB sticks from Debian packages and the executable of the agent. */

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
/** Files that a recovery medium does not need. */
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
/** Drivers for sound, graphics and others that neither disks nor network cards need. */
const DRIVERS_LEFT_OUT = ['gpu', 'media', 'staging', 'iio', 'hwmon', 'leds', 'video', 'infiniband', 'isdn'];

export interface RecoveryRequest {
  /** The executable of the agent for Linux on x64. */
  agent: string;
  out: string;
  /** A root folder that debootstrap has made before; it is copied. */
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

/** The paths of administration programs, which are not on every search path. */
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
