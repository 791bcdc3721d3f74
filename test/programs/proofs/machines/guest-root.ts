import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';

/**
 * The root of a real Debian for guests, made once by debootstrap (minutes, and about 300 MB from its servers) and kept as
 * a tar archive in `~/.cache/muster-test-machines`. Needs root.
 */

const CACHE = process.env['MUSTER_TEST_MACHINES'] ?? path.join(homedir(), '.cache', 'muster-test-machines');
const PACKAGES = ['linux-image-amd64', 'systemd-sysv', 'busybox', 'iproute2', 'initramfs-tools', 'zstd'];
/** What a guest of the tests never reads. */
const LEFT_OUT = ['usr/share/doc', 'usr/share/locale', 'usr/share/man', 'var/cache/apt', 'var/lib/apt/lists'];

/** Enough for every virtual disk and network card of qemu that the tests use, in a tenth of the usual size. */
const SMALL_MODULES = [
  'virtio_pci',
  'virtio_blk',
  'virtio_scsi',
  'virtio_net',
  'sd_mod',
  'ahci',
  'ext4',
  'crc32c_generic',
];

/** The path of the archive. */
export async function guestRoot(): Promise<string> {
  const archive = path.join(CACHE, 'debian-bookworm.tar');
  if (existsSync(archive)) return archive;
  await mkdir(CACHE, { recursive: true });
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-guest-root-'));
  const root = path.join(folder, 'root');
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, LC_ALL: 'C' },
    });
  try {
    run('debootstrap', '--variant=minbase', `--include=${PACKAGES.join(',')}`, 'bookworm', root);
    await prepareRoot(root, run);
    run('tar', '-C', root, '-cf', `${archive}.new`, '.');
    await rename(`${archive}.new`, archive);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return archive;
}

type Run = (program: string, ...args: string[]) => void;

/** Makes the initramfs, and the program that serves the page of a guest. */
export async function prepareRoot(root: string, run: Run): Promise<void> {
  const at = (...names: string[]) => path.join(root, ...names);
  for (const name of LEFT_OUT) await rm(at(name), { recursive: true, force: true });
  await writeFile(at('etc/initramfs-tools/modules'), `${SMALL_MODULES.join('\n')}\n`);
  await writeFile(at('etc/initramfs-tools/conf.d/muster'), 'MODULES=list\nBUSYBOX=y\nCOMPRESS=zstd\n');
  run(
    'chroot',
    root,
    'sh',
    '-c',
    'cp /boot/vmlinuz-* /boot/vmlinuz && mkinitramfs -o /boot/initrd.img $(ls /lib/modules)',
  );
  run(
    'chroot',
    root,
    'sh',
    '-c',
    'rm -f /boot/initrd.img-* /boot/vmlinuz-* && rm -rf /etc/machine-id && touch /etc/machine-id',
  );
  await mkdir(at('srv/www'), { recursive: true });
  await writeFile(at('usr/local/sbin/guest-init'), GUEST_INIT, { mode: 0o755 });
}

/** In place of systemd, which needs a minute and more where qemu has to translate every instruction. */
const GUEST_INIT = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -o remount,rw /
for module in virtio_pci virtio_net; do modprobe $module; done
card=$(ls /sys/class/net | grep -v '^lo$' | head -n 1)
ip link set lo up
ip link set "$card" up
ip address add 10.0.2.15/24 dev "$card"
ip route add default via 10.0.2.2
echo "guest-init: $card" > /dev/console
if [ -x /usr/local/sbin/guest-work ]; then /usr/local/sbin/guest-work & fi
exec busybox httpd -f -p 80 -h /srv/www
`;
