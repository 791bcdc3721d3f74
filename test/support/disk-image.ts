import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Context } from 'mocha';

/** Small raw disks with a partition table and an ext4 file system, made without mount and without root. */

const MIB = 1024 * 1024;
export const PARTITION_OFFSET = MIB;

const environment = () => ({
  ...process.env,
  LC_ALL: 'C',
  PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
});

/** Runs a program that keeps disks. Throws with what it has printed where it fails. */
export const onDisk = (program: string, args: readonly string[], input = ''): string =>
  execFileSync(program, [...args], {
    input,
    env: environment(),
    encoding: 'utf8',
    maxBuffer: 64 * MIB,
    stdio: 'pipe',
  });

/** Skips where the programs are missing, and fails there in CI, which installs them. */
export function needsDiskPrograms(test: Context): void {
  const missing = ['sfdisk', 'mke2fs', 'debugfs', 'e2fsck', 'dumpe2fs'].filter(
    (program) => spawnSync('sh', ['-c', `command -v ${program}`], { env: environment() }).status !== 0,
  );
  if (missing.length === 0) return;
  if (process.env['CI'] === 'true') throw new Error(`${missing.join(', ')}: apt-get install fdisk e2fsprogs`);
  // oxlint-disable-next-line no-console -- a test that does not run has to say so
  console.warn(`      skipped: ${missing.join(', ')} are not installed ("apt-get install fdisk e2fsprogs")`);
  test.skip();
}

interface ImageOptions {
  sizeMib?: number;
  label?: 'gpt' | 'dos';
  files?: Readonly<Record<string, string | Buffer>>;
  /** A folder whose content is copied, with owners, rights, times and links. */
  folder?: string;
  /** Fills free blocks of the file system with random bytes, as deleted files leave them. */
  junkMib?: number;
}

/** One partition from the first MiB to the last but one. */
export async function makeDiskImage(file: string, options: ImageOptions): Promise<void> {
  const { sizeMib = 64, label = 'gpt', files = {}, junkMib = 0 } = options;
  const content = await mkdtemp(path.join(tmpdir(), 'muster-disk-content-'));
  try {
    for (const [name, bytes] of Object.entries(files)) {
      await mkdir(path.dirname(path.join(content, name)), { recursive: true });
      await writeFile(path.join(content, name), bytes);
    }
    const disk = await open(file, 'wx');
    await disk.truncate(sizeMib * MIB);
    await disk.close();
    const type = label === 'gpt' ? '0FC63DAF-8483-4772-8E79-3D69D8477DE4' : '83';
    onDisk(
      'sfdisk',
      ['--quiet', file],
      `label: ${label}\nstart=2048, size=${(sizeMib - 2) * 2048}, type=${type}\n`,
    );
    const size = `${(sizeMib - 2) * 1024}k`;
    onDisk('mke2fs', [
      '-q',
      '-F',
      '-t',
      'ext4',
      '-b',
      '4096',
      '-d',
      options.folder ?? content,
      '-E',
      `offset=${PARTITION_OFFSET}`,
      file,
      size,
    ]);
    if (junkMib > 0) await leaveJunk(file, junkMib);
  } finally {
    await rm(content, { recursive: true, force: true });
  }
}

/** A file that is written and deleted again. */
async function leaveJunk(file: string, mib: number): Promise<void> {
  const source = `${file}.junk`;
  await writeFile(source, randomBytes(mib * MIB));
  try {
    onDisk('debugfs', ['-w', '-f', '-', fileSystemOf(file)], `write ${source} junk\nrm junk\n`);
  } finally {
    await rm(source);
  }
}

/** How the programs of ext4 find the file system of the partition. */
export const fileSystemOf = (file: string) => `${file}?offset=${PARTITION_OFFSET}`;

/** Puts a file in place of another one, within the file system. */
export async function changeFile(file: string, name: string, content: string | Buffer): Promise<void> {
  const source = `${file}.change`;
  await writeFile(source, content);
  try {
    onDisk('debugfs', ['-w', '-f', '-', fileSystemOf(file)], `rm ${name}\nwrite ${source} ${name}\n`);
  } finally {
    await rm(source);
  }
}

export const fileOn = (file: string, name: string): string =>
  onDisk('debugfs', ['-R', `cat ${name}`, fileSystemOf(file)]);

/** Throws where the file system has a fault. */
export function checkFileSystem(file: string): void {
  onDisk('e2fsck', ['-fn', fileSystemOf(file)]);
}
