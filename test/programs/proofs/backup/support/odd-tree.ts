import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, link, lutimes, mkdir, open, symlink, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setAttribute } from './tree.ts';

/** One of each kind of file that backups are known to lose: the same each time, so that a failure can be looked into. */
export async function plantOddTree(folder: string): Promise<void> {
  const at = (name: string) => path.join(folder, name);
  const NAMES = [
    'plain.txt',
    'with\nnewline',
    `quotes "'\``,
    '-dash',
    '--target=x',
    '[abc]*?',
    'back\\slash',
    '$HOME',
    ' blanks ',
    '...',
    'ü'.normalize('NFC'),
    'ü'.normalize('NFD'),
    '日本語',
    '👩‍💻',
    'x'.repeat(255),
    '\u0001control',
    '%2e%2e',
    'a\tb',
  ];
  for (const name of NAMES) await writeFile(at(name), `content of ${name}`);
  await writeFile(
    Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0x66, 0xff, 0xfe, 0x80])]),
    'not UTF-8',
  );
  await writeFile(
    Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0x66, 0xff, 0xfd, 0x80])]),
    'nor this',
  );
  await writeFile(at('empty'), '');
  await writeFile(at('large'), randomBytes(3_000_000));
  const sparse = await open(at('sparse'), 'w');
  await sparse.write('end', 20_000_000);
  await sparse.close();
  const deep = at(path.join(...Array.from({ length: 12 }, (_value, i) => `${i}-${'d'.repeat(200)}`)));
  await mkdir(deep, { recursive: true });
  await writeFile(path.join(deep, 'deep'), 'deep');
  await mkdir(at('empty folder'));
  await mkdir(at('closed'), { mode: 0o700 });
  await writeFile(at('closed/inner'), 'inner');
  await symlink('plain.txt', at('link'));
  await symlink('/nowhere/at all\n', at('broken link'));
  await symlink('../../../../etc/passwd', at('link up'));
  await symlink('closed', at('link to a folder'));
  await link(at('large'), at('closed/the same file'));
  execFileSync('mkfifo', [at('fifo')]);
  for (const [name, mode] of [
    ['plain.txt', 0o4755],
    ['-dash', 0o000],
    ['empty', 0o444],
  ] as const) {
    await chmod(at(name), mode);
  }
  setAttribute(at('plain.txt'), 'user.note', Buffer.from([0, 1, 255]));
  setAttribute(at('closed'), 'user.folder', Buffer.from('of a folder'));
  await utimes(at('plain.txt'), 1, 1.5);
  await utimes(at('large'), 4_000_000_000, 4_000_000_000.123);
  await lutimes(at('broken link'), 86_400, 86_400);
  await utimes(at('empty folder'), 1_000_000_000, 1_000_000_000.999);
  await chmod(at('closed'), 0o1710);
}
