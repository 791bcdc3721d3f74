import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { guestRoot } from './guest-root.ts';

/**
 * Makes a raw disk that boots through BIOS and through UEFI, without mount and without loop devices:
 *
 *     const guest = await buildGuestDisk('/tmp/x/disk.raw', { page: 'hello' });
 *     const running = await startGuest({ disk: guest.file, firmware: 'bios' });
 *     await running.page();  // 'hello', after 20 to 50 s without KVM
 *     await running.stop();
 *
 * GPT: the space of GRUB for BIOS, the EFI system partition, ext4 with a Debian. It starts `guest-init` (guest-root.ts)
 * in place of systemd; `init: 'systemd'` starts the whole Debian, which takes minutes. The first disk of a machine needs
 * minutes more for debootstrap. `changeGuest` writes into the file system of a disk that no guest runs from.
 */

const MIB = 1024 * 1024;
const SECTOR = 512;
/** In MiB. */
const [GRUB_AT, EFI_AT, EFI_SIZE] = [1, 2, 64];
const ROOT_AT = EFI_AT + EFI_SIZE;

export const GUEST_ROOT_OFFSET = ROOT_AT * MIB;

export interface GuestDisk {
  file: string;
  sizeBytes: number;
  rootUuid: string;
}

interface GuestOptions {
  /** What the guest serves at `/`. */
  page: string;
  sizeMib?: number;
  init?: 'guest-init' | 'systemd';
  /** Further files of the guest, by their absolute paths. */
  files?: Readonly<Record<string, string | Buffer>>;
}

const run = (program: string, args: readonly string[], input?: string): Buffer =>
  execFileSync(program, [...args], {
    input: input ?? '',
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      ...process.env,
      LC_ALL: 'C',
      PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
      MTOOLS_SKIP_CHECK: '1',
    },
    maxBuffer: 64 * MIB,
  });

export async function buildGuestDisk(file: string, options: GuestOptions): Promise<GuestDisk> {
  const { sizeMib = 1536, page, init = 'guest-init', files = {} } = options;
  const archive = await guestRoot();
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-guest-disk-'));
  const at = (name: string) => path.join(folder, name);
  const rootUuid = randomUUID();
  try {
    const root = at('root');
    await mkdir(root);
    run('tar', ['-C', root, '-xf', archive]);
    const write = async (name: string, content: string | Buffer) => {
      await mkdir(path.dirname(path.join(root, name)), { recursive: true });
      await writeFile(path.join(root, name), content, { mode: 0o755 });
    };
    for (const [name, content] of Object.entries(files)) await write(name, content);
    await write('srv/www/index.html', page);
    await write('etc/fstab', `UUID=${rootUuid} / ext4 errors=remount-ro 0 1\n`);
    await write('etc/hostname', 'muster-guest\n');
    await write('boot/grub/grub.cfg', grubConfig(rootUuid, init));

    const disk = await open(file, 'wx');
    await disk.truncate(sizeMib * MIB);
    await disk.close();
    run('sfdisk', ['--quiet', file], partitionScript());
    // The second table is kept at the end of the disk.
    const rootKib = (sizeMib - ROOT_AT - 1) * 1024;
    run('mke2fs', [
      '-q',
      '-F',
      '-t',
      'ext4',
      '-U',
      rootUuid,
      '-L',
      'guest',
      '-d',
      root,
      '-E',
      `offset=${ROOT_AT * MIB}`,
      file,
      `${rootKib}k`,
    ]);
    await writeEfi(file, rootUuid, at);
    await writeBiosLoader(file, rootUuid, at);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return { file, sizeBytes: sizeMib * MIB, rootUuid };
}

/** Replaces files in the root of a guest that does not run. */
export async function changeGuest(
  file: string,
  files: Readonly<Record<string, string | Buffer>>,
): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-guest-change-'));
  try {
    const source = path.join(folder, 'content');
    for (const [name, content] of Object.entries(files)) {
      await writeFile(source, content);
      const commands = [`rm ${name}`, `write ${source} ${name}`, ''].join('\n');
      run('debugfs', ['-w', '-f', '-', `${file}?offset=${GUEST_ROOT_OFFSET}`], commands);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const partitionScript = () =>
  [
    'label: gpt',
    `start=${(GRUB_AT * MIB) / SECTOR}, size=${((EFI_AT - GRUB_AT) * MIB) / SECTOR}, type=21686148-6449-6E6F-744E-656564454649, name="grub"`,
    `start=${(EFI_AT * MIB) / SECTOR}, size=${(EFI_SIZE * MIB) / SECTOR}, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name="efi"`,
    `start=${(ROOT_AT * MIB) / SECTOR}, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name="root"`,
    '',
  ].join('\n');

const grubConfig = (uuid: string, init: string) =>
  `set timeout=0
menuentry guest {
  linux /boot/vmlinuz root=UUID=${uuid} ro console=ttyS0 quiet ${init === 'systemd' ? '' : 'init=/usr/local/sbin/guest-init'}
  initrd /boot/initrd.img
}
`;

const MODULES = ['part_gpt', 'ext2', 'normal', 'linux', 'search', 'search_fs_uuid', 'configfile', 'echo'];

async function makeGrub(format: string, uuid: string, at: (name: string) => string): Promise<Buffer> {
  const config = at(`${format}.cfg`);
  const output = at(`${format}.img`);
  await writeFile(
    config,
    `search --fs-uuid --set=root ${uuid}\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n`,
  );
  const own = format === 'i386-pc' ? ['biosdisk'] : ['fat'];
  run('grub-mkimage', ['-O', format, '-o', output, '-p', '/boot/grub', '-c', config, ...MODULES, ...own]);
  return readFile(output);
}

async function writeEfi(file: string, uuid: string, at: (name: string) => string): Promise<void> {
  await makeGrub('x86_64-efi', uuid, at);
  const efi = at('efi.fat');
  const made = await open(efi, 'wx');
  await made.truncate(EFI_SIZE * MIB);
  await made.close();
  run('mkfs.vfat', ['-n', 'EFI', efi]);
  run('mmd', ['-i', efi, '::/EFI', '::/EFI/BOOT']);
  run('mcopy', ['-i', efi, at('x86_64-efi.img'), '::/EFI/BOOT/BOOTX64.EFI']);
  await writeAt(file, await readFile(efi), EFI_AT * MIB);
}

/** What `grub-install` does on a disk whose partitions the kernel shows. */
async function writeBiosLoader(file: string, uuid: string, at: (name: string) => string): Promise<void> {
  const core = await makeGrub('i386-pc', uuid, at);
  const loader = await readFile('/usr/lib/grub/i386-pc/boot.img');
  const first = BigInt((GRUB_AT * MIB) / SECTOR);
  const disk = await open(file, 'r+');
  try {
    const record = Buffer.alloc(SECTOR);
    await disk.read(record, 0, SECTOR, 0);
    loader.copy(record, 0, 0, 440);
    record.writeBigUInt64LE(first, 0x5c);
    // Without this the loader trusts the drive number of the BIOS only for floppy disks.
    record[0x66] = 0x90;
    record[0x67] = 0x90;
    await disk.write(record, 0, SECTOR, 0);
    core.writeBigUInt64LE(first + 1n, 0x1f4);
    core.writeUInt16LE(Math.ceil(core.length / SECTOR) - 1, 0x1fc);
    await disk.write(core, 0, core.length, GRUB_AT * MIB);
  } finally {
    await disk.close();
  }
}

async function writeAt(file: string, bytes: Buffer, offset: number): Promise<void> {
  const disk = await open(file, 'r+');
  try {
    await disk.write(bytes, 0, bytes.length, offset);
  } finally {
    await disk.close();
  }
}
